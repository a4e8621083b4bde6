"""Aggregates: how rows fold into state, declared here and run where the rows are."""

from atoll.aggregates.base import Aggregator, Packing, StateField
from atoll.aggregates.collect import CollectList, CollectSet
from atoll.aggregates.combine import Combine
from atoll.aggregates.count import Count
from atoll.aggregates.extremes import Max, Min
from atoll.aggregates.positions import First, Last
from atoll.aggregates.struct_of import Kept, StructOf
from atoll.aggregates.sums import Avg, Sum
from atoll.aggregates.top import TopN

__all__ = [
    "Aggregator",
    "Avg",
    "CollectList",
    "CollectSet",
    "Combine",
    "Count",
    "First",
    "Kept",
    "Last",
    "Max",
    "Min",
    "Packing",
    "StateField",
    "StructOf",
    "Sum",
    "TopN",
]
