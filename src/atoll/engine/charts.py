"""Says what the jobs of a topology are known to do with rows, for who audits their attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.engine.program import JobProgram, Program, TaskChain
from atoll.microbatch.accounts.entries import ChainChart, JobChart, StepChart
from atoll.topology.operator import Operator, RootOperator, StateOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.topology.jobs import Cut


def job_charts(program: Program, cut: Cut) -> tuple[JobChart, ...]:
    """What each job of a topology reads, and what its steps may make of rows."""
    operators = {number: operator for operator, number in cut.number.items()}
    return tuple(_chart(program, job, cut, operators) for job in program.jobs)


def origins_of(job: JobProgram, cut: Cut) -> list[int]:
    """The sources and emitting steps that a job's rows come from."""
    found: set[int] = set()

    def climb(operator: Operator) -> None:
        if isinstance(operator, RootOperator | StateOperator):
            found.add(cut.number[operator])
            return
        for each in operator.inputs:
            climb(each)

    for chain in cut.jobs[job.index].chains:
        climb(chain.origin)
    return sorted(found)


def step_charts(chain: TaskChain) -> tuple[StepChart, ...]:
    """What the steps of a chain may make of rows."""
    return tuple(
        StepChart(number, _name(step), step.makes)
        for number, step in zip(chain.numbers, chain.steps, strict=True)
    )


def _chart(
    program: Program, job: JobProgram, cut: Cut, operators: Mapping[int, Operator]
) -> JobChart:
    chains = tuple(
        ChainChart(
            chain.origin,
            _name(operators[chain.origin]),
            chain.reads,
            step_charts(chain),
            chain.ends,
            chain.repeated,
        )
        for chain in job.chains
    )
    origins = origins_of(job, cut)
    sources = {origin: program.depots[origin][0] for origin in origins if origin in program.depots}
    return JobChart(
        job.index,
        {origin: sources.get(origin) for origin in origins},
        chains,
        tuple(each.chart(program.pstates) for each in job.steps),
    )


def _name(step: Operator) -> str:
    return f"{step.title} ({step.place})"
