"""Which columns of their rows state steps need, so that no others are moved to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.engine.program import (
    AggregateTerminal,
    AppendTerminal,
    FoldTerminal,
    LookupTerminal,
    MaterializeTerminal,
    ProcessTerminal,
)
from atoll.steps.incremental_join.terminals import JoinSideTerminal
from atoll.steps.windows.terminals import ObserveTerminal, WindowTerminal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from atoll.engine.program import JobProgram, TaskChain, Terminal

__all__ = ["columns_needed"]


def columns_needed(job: JobProgram, chains: Iterable[TaskChain]) -> frozenset[str] | None:
    """Which columns of their origin's rows the chains use; None when they may use any.

    A chain with steps may: a step of the user's is handed whole rows.
    """
    names: set[str] = set()
    for chain in chains:
        if chain.steps:
            return None
        for tag in chain.terminals:
            names.update(_needed(job.terminal(tag)))
    return frozenset(names)


def _needed(terminal: Terminal) -> set[str]:
    match terminal:
        case (
            AggregateTerminal(elements=elements, fields=fields)
            | FoldTerminal(elements=elements, fields=fields)
            | WindowTerminal(elements=elements, fields=fields)
        ):
            columns = [each.column for each in elements]
            columns += [name for each in fields for name in each.columns]
        case (
            LookupTerminal(elements=elements, rows=rows)
            | JoinSideTerminal(elements=elements, rows=rows)
        ):
            columns = [*(each.column for each in elements), *rows.names]
        case ProcessTerminal(key=key, rows=rows):
            columns = [*rows.names, None if key is None else key.column]
        case MaterializeTerminal(rows=rows):
            columns = rows.names
        case AppendTerminal(schema=schema):
            columns = schema.names
        case ObserveTerminal(column=column):
            columns = [column]
        case _:
            raise AssertionError(terminal)
    return {name for name in columns if name is not None}
