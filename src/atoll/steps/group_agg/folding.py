"""Aggregations of Spark SQL's that tasks do: their columns, and the topology with folds instead.

Pure.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

from atoll.columns.types import NotCertifiedError
from atoll.errors import DeclarationError
from atoll.steps.columns.computing import computing
from atoll.steps.fold.bind import fold_schema
from atoll.steps.group_agg.certified import certified_agg
from atoll.steps.group_agg.declare import GroupAgg
from atoll.topology.operator import Operator

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from atoll.steps.columns.schemas import StepWay
    from atoll.topology.graph import Graph


def agg_schema(step: GroupAgg, rows: pa.Schema) -> pa.Schema:
    """The columns after an aggregation that tasks do.

    Raises:
        NotCertifiedError: When Spark has to do it.
    """
    agg = certified_agg(step, rows)
    try:
        before = rows if agg.before is None else computing(agg.before, rows).chosen
        return computing(agg.after, fold_schema(agg.fold, before)).chosen
    except DeclarationError as error:
        raise NotCertifiedError(error.message) from None


def folded(
    graph: Graph, schemas: Mapping[Operator, pa.Schema], ways: Mapping[Operator, StepWay]
) -> Graph:
    """The graph in which every aggregation that goes the tasks' way is a fold.

    Args:
        graph: As declared; it stays as it is.
        schemas: The columns after every operator.
        ways: Which way each of its column steps goes.
    """
    aggregations = [each for each in graph.operators if isinstance(each, GroupAgg)]
    chosen = {each for each in aggregations if ways[each].way == "tasks"}
    if not chosen:
        return graph
    made = copy.copy(graph)
    made.operators, made.ways = [], {}
    instead: dict[Operator, Operator] = {}
    for each in graph.operators:
        inputs = tuple(instead[before] for before in each.inputs)
        same = all(a is b for a, b in zip(inputs, each.inputs, strict=True))
        new: list[Operator] = [each if same else dataclasses.replace(each, inputs=inputs)]
        if each in chosen:
            step = new[0]
            assert isinstance(step, GroupAgg)
            agg = certified_agg(step, schemas[each.inputs[0]])
            new = [*([agg.before] if agg.before else []), agg.fold, agg.after]
        made.operators += new
        made.ways |= dict.fromkeys(new, graph.ways[each])
        instead[each] = new[-1]
    return made
