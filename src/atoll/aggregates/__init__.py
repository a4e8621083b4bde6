"""Aggregates: how rows fold into state, declared here and run where the rows are."""

from atoll.aggregates.accumulate import Accumulate
from atoll.aggregates.approx import ApproxCountDistinct, ApproxPercentile
from atoll.aggregates.base import Aggregator, Packing, StateField
from atoll.aggregates.bools import BoolAnd, BoolOr
from atoll.aggregates.collect import CollectList, CollectSet
from atoll.aggregates.combine import Combine
from atoll.aggregates.compound import MapOf, MergeMap
from atoll.aggregates.count import Count
from atoll.aggregates.count_distinct import CountDistinct
from atoll.aggregates.extremes import Max, Min
from atoll.aggregates.limit import Limit
from atoll.aggregates.positions import First, Last, MaxBy, MinBy
from atoll.aggregates.struct_of import Kept, StructOf
from atoll.aggregates.sums import Avg, Sum
from atoll.aggregates.top import TopN
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
