"""Which column steps run in the tasks, and which Spark runs. Pure.

A step runs in the tasks when no step of Spark's stands before it: where there is one, Spark has
the rows. A step that can fail on a row runs there only if none of Spark's stands behind it either,
or both would run it, and say twice which rows it fails on.
"""

from __future__ import annotations

from collections.abc import Collection

from atoll.topology.operator import (
    BatchOperator,
    ColumnOperator,
    Operator,
    RootOperator,
    StateOperator,
)


def in_tasks(
    operators: Collection[Operator],
    sure: Collection[Operator],
    failing: Collection[Operator] = (),
) -> frozenset[Operator]:
    """The column steps that tasks run.

    Args:
        operators: Of a topology, each after its inputs.
        sure: The column steps that tasks can run, and that fail on no row.
        failing: The others that they can run.
    """
    able = {*sure, *failing}
    while True:
        kept = _untouched(operators, able)
        lost = {each for each in kept if each in failing} & _before_spark(operators, kept)
        if not lost:
            return frozenset(kept)
        able = kept - lost


def _untouched(operators: Collection[Operator], able: Collection[Operator]) -> set[Operator]:
    """Those of the steps that no step of Spark's stands before."""
    clean: set[Operator] = set()
    kept: set[Operator] = set()
    for each in operators:
        if isinstance(each, RootOperator | StateOperator):
            clean.add(each)
        elif all(before in clean for before in each.inputs):
            if each in able:
                kept.add(each)
            if each in able or _in_any_task(each):
                clean.add(each)
    return kept


def _in_any_task(operator: Operator) -> bool:
    """Whether tasks run it wherever rows are theirs: Python's steps, and unions."""
    unites = isinstance(operator, ColumnOperator) and operator.unites
    return unites or isinstance(operator, BatchOperator)


def _before_spark(operators: Collection[Operator], kept: Collection[Operator]) -> set[Operator]:
    """The steps whose rows come to one of Spark's before they come to a state step."""
    found: set[Operator] = set()
    for each in reversed(list(operators)):
        if isinstance(each, StateOperator):
            continue
        spark = isinstance(each, ColumnOperator) and not each.unites
        if each in found or (spark and each not in kept):
            found.update(each.inputs)
    return found
