"""The operators of a topology, one per file."""

from atoll.dataflow.operators.aggregate import Aggregate, AggregateField
from atoll.dataflow.operators.append_to import AppendTo
from atoll.dataflow.operators.arguments import Arguments
from atoll.dataflow.operators.ask import Ask
from atoll.dataflow.operators.base import (
    BatchOperator,
    ColumnOperator,
    Makes,
    Operator,
    RootOperator,
    StateOperator,
)
from atoll.dataflow.operators.changes import Changes
from atoll.dataflow.operators.chosen import Chosen
from atoll.dataflow.operators.distinct import Distinct
from atoll.dataflow.operators.explode import Explode
from atoll.dataflow.operators.explode_map import ExplodeMap
from atoll.dataflow.operators.first_seen import FirstSeen
from atoll.dataflow.operators.flat_map import FlatMap
from atoll.dataflow.operators.fold import Fold
from atoll.dataflow.operators.group_agg import GroupAgg
from atoll.dataflow.operators.hash_by import HashBy
from atoll.dataflow.operators.incremental_join import IncrementalJoin, JoinSide
from atoll.dataflow.operators.join import Join
from atoll.dataflow.operators.keep import Keep
from atoll.dataflow.operators.lookup import Lookup
from atoll.dataflow.operators.map import Map
from atoll.dataflow.operators.map_batches import MapBatches
from atoll.dataflow.operators.materialize import Materialize
from atoll.dataflow.operators.numbered import NUMBER, Numbered
from atoll.dataflow.operators.observe import Observe
from atoll.dataflow.operators.place_by import PlaceBy
from atoll.dataflow.operators.present import Present
from atoll.dataflow.operators.process import Process
from atoll.dataflow.operators.processing_time import ProcessingTime
from atoll.dataflow.operators.select import Select
from atoll.dataflow.operators.select_from import SelectFrom
from atoll.dataflow.operators.shuffle import Shuffle
from atoll.dataflow.operators.source import Source
from atoll.dataflow.operators.tick import Tick
from atoll.dataflow.operators.to_all import ToAll
from atoll.dataflow.operators.to_global import ToGlobal
from atoll.dataflow.operators.transform import Transform
from atoll.dataflow.operators.union import Union
from atoll.dataflow.operators.watermark import Watermark
from atoll.dataflow.operators.where import Where
from atoll.dataflow.operators.window import Window
from atoll.dataflow.operators.window_agg import WindowAgg
from atoll.dataflow.operators.with_columns import WithColumns

__all__ = [
    "NUMBER",
    "Aggregate",
    "AggregateField",
    "AppendTo",
    "Arguments",
    "Ask",
    "BatchOperator",
    "Changes",
    "Chosen",
    "ColumnOperator",
    "Distinct",
    "Explode",
    "ExplodeMap",
    "FirstSeen",
    "FlatMap",
    "Fold",
    "GroupAgg",
    "HashBy",
    "IncrementalJoin",
    "Join",
    "JoinSide",
    "Keep",
    "Lookup",
    "Makes",
    "Map",
    "MapBatches",
    "Materialize",
    "Numbered",
    "Observe",
    "Operator",
    "PlaceBy",
    "Present",
    "Process",
    "ProcessingTime",
    "RootOperator",
    "Select",
    "SelectFrom",
    "Shuffle",
    "Source",
    "StateOperator",
    "Tick",
    "ToAll",
    "ToGlobal",
    "Transform",
    "Union",
    "Watermark",
    "Where",
    "Window",
    "WindowAgg",
    "WithColumns",
]
