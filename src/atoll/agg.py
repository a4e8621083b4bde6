"""The aggregates, as users write them: ``from atoll import agg``, ``agg.sum("price")``.

Arguments are Spark SQL expressions over the rows, most often a column's name.
"""

from atoll.aggregates.accumulate import accumulate
from atoll.aggregates.approx import approx_count_distinct, approx_percentile
from atoll.aggregates.bools import bool_and, bool_or
from atoll.aggregates.collect import collect_list, collect_set
from atoll.aggregates.combine import combine
from atoll.aggregates.count import count
from atoll.aggregates.extremes import max, min  # noqa: A004 - used as agg.max
from atoll.aggregates.limit import limit
from atoll.aggregates.positions import first, last, max_by, min_by
from atoll.aggregates.sums import avg, sum  # noqa: A004 - used as agg.sum
from atoll.aggregates.top import top_n

__all__ = [
    "accumulate",
    "approx_count_distinct",
    "approx_percentile",
    "avg",
    "bool_and",
    "bool_or",
    "collect_list",
    "collect_set",
    "combine",
    "count",
    "first",
    "last",
    "limit",
    "max",
    "max_by",
    "min",
    "min_by",
    "sum",
    "top_n",
]
