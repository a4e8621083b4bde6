"""The aggregates, as users write them: ``from atoll import agg``, ``agg.sum("price")``.

Arguments are Spark SQL expressions over the rows, most often a column's name.
"""

from atoll.aggregates.accumulate import accumulate
from atoll.aggregates.combine import combine
from atoll.aggregates.compound import (
    count_values,
    map,  # noqa: A004 - used as agg.map
    map_from,
    merge_map,
    struct,
)
from atoll.aggregates.rows.collect import collect_list, collect_set, remove_from_set
from atoll.aggregates.rows.lag import lag
from atoll.aggregates.rows.limit import limit
from atoll.aggregates.rows.positions import first, last, max_by, min_by
from atoll.aggregates.rows.top import top_n
from atoll.aggregates.totals.approx import approx_count_distinct, approx_percentile
from atoll.aggregates.totals.bools import bool_and, bool_or
from atoll.aggregates.totals.count import count, count_if
from atoll.aggregates.totals.count_distinct import count_distinct
from atoll.aggregates.totals.extremes import max, min  # noqa: A004 - used as agg.max
from atoll.aggregates.totals.spread import stddev, stddev_pop, var_pop, variance
from atoll.aggregates.totals.sums import avg, sum  # noqa: A004 - used as agg.sum
from atoll.aggregates.voided import voided

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
    "count_distinct",
    "count_if",
    "count_values",
    "first",
    "lag",
    "last",
    "limit",
    "map",
    "map_from",
    "max",
    "max_by",
    "merge_map",
    "min",
    "min_by",
    "remove_from_set",
    "stddev",
    "stddev_pop",
    "struct",
    "sum",
    "top_n",
    "var_pop",
    "variance",
    "voided",
]
