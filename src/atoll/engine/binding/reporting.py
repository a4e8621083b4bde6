"""Which runs of a Python step report the rows that they reject. Pure.

A step may run more than once over the same rows: in two chains that begin alike, before column
steps and in a chain, in two jobs. Its rows must reach the dead-letter depot once, so the first of
these runs reports them, and the others only drop them. The first is found here, once per
deployment: earlier jobs first, then column steps' inputs, then chains in their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from atoll.topology.operator import BatchOperator, Operator, RootOperator, StateOperator

if TYPE_CHECKING:
    from atoll.engine.program import JobProgram
    from atoll.topology.jobs import Chain, Cut


def reported_once(jobs: tuple[JobProgram, ...], cut: Cut) -> tuple[JobProgram, ...]:
    """The jobs, each saying which of its runs report."""
    done: set[int] = set()
    marked = []
    for job in jobs:
        framed = {cut.number[each] for each in _before_columns(cut.jobs[job.index].chains)} - done
        done |= framed
        seen: set[tuple[int, ...]] = set()
        chains = []
        for chain in job.chains:
            ways = [(chain.origin, *chain.numbers[: at + 1]) for at in range(len(chain.numbers))]
            repeated = sum(1 for way in ways if way[-1] in done or way in seen)
            seen.update(ways)
            chains.append(replace(chain, repeated=repeated))
        done |= {number for chain in job.chains for number in chain.numbers}
        marked.append(replace(job, chains=tuple(chains), reporting=frozenset(framed)))
    return tuple(marked)


def _before_columns(chains: tuple[Chain, ...]) -> set[Operator]:
    """The Python steps that a job's column steps take rows from."""
    found: set[Operator] = set()

    def climb(operator: Operator) -> None:
        if isinstance(operator, RootOperator | StateOperator):
            return
        if isinstance(operator, BatchOperator):
            found.add(operator)
        for each in operator.inputs:
            climb(each)

    for chain in chains:
        climb(chain.origin)
    return found
