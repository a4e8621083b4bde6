"""Aggregates: how rows fold into state, declared here and run where the rows are."""

from atoll.aggregates.accumulate import Accumulate
from atoll.aggregates.base import Aggregator, Packing, StateField
from atoll.aggregates.combine import Combine
from atoll.aggregates.compound import MapOf, MergeMap
from atoll.aggregates.rows.collect import CollectList, CollectSet
from atoll.aggregates.rows.limit import Limit
from atoll.aggregates.rows.positions import First, Last, MaxBy, MinBy
from atoll.aggregates.rows.top import TopN
from atoll.aggregates.struct_of import Kept, StructOf
from atoll.aggregates.totals.approx import ApproxCountDistinct, ApproxPercentile
from atoll.aggregates.totals.bools import BoolAnd, BoolOr
from atoll.aggregates.totals.count import Count
from atoll.aggregates.totals.count_distinct import CountDistinct
from atoll.aggregates.totals.extremes import Max, Min
from atoll.aggregates.totals.sums import Avg, Sum
from atoll.aggregates.voided import Voided

__all__ = [
    "Accumulate",
    "Aggregator",
    "ApproxCountDistinct",
    "ApproxPercentile",
    "Avg",
    "BoolAnd",
    "BoolOr",
    "CollectList",
    "CollectSet",
    "Combine",
    "Count",
    "CountDistinct",
    "First",
    "Kept",
    "Last",
    "Limit",
    "MapOf",
    "Max",
    "MaxBy",
    "MergeMap",
    "Min",
    "MinBy",
    "Packing",
    "StateField",
    "StructOf",
    "Sum",
    "TopN",
    "Voided",
]
