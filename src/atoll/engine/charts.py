"""Says what the jobs of a topology are known to do with rows, for who audits their attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.engine.program import (
    AggregateTerminal,
    AppendTerminal,
    AskTerminal,
    FoldTerminal,
    JobProgram,
    LookupTerminal,
    MaterializeTerminal,
    ProcessTerminal,
    Program,
    TaskChain,
    Terminal,
)
from atoll.microbatch.accounts.entries import ChainChart, JobChart, StepChart, TerminalChart
from atoll.steps.distinct_count.bind import FirstSeenTerminal
from atoll.steps.windows.terminals import ObserveTerminal, WindowTerminal
from atoll.topology.operator import Operator, RootOperator, StateOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.topology.jobs import Fragments
    from atoll.topology.operator import Makes

__all__ = ["job_charts", "origins_of", "step_charts"]


def job_charts(program: Program, cut: Fragments) -> tuple[JobChart, ...]:
    """What each job of a topology reads, and what its steps may make of rows."""
    operators = {number: operator for operator, number in cut.number.items()}
    return tuple(_chart(program, job, cut, operators) for job in program.jobs)


def origins_of(job: JobProgram, cut: Fragments) -> list[int]:
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
    program: Program, job: JobProgram, cut: Fragments, operators: Mapping[int, Operator]
) -> JobChart:
    chains = tuple(
        ChainChart(
            chain.origin,
            _name(operators[chain.origin]),
            chain.reads,
            step_charts(chain),
            chain.terminals,
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
        tuple(_terminal(program, each) for each in job.terminals),
    )


def _name(step: Operator) -> str:
    return f"{step.title} ({step.place})"


def _terminal(program: Program, terminal: Terminal) -> TerminalChart:
    chart = TerminalChart(terminal.tag, terminal.label, "each", gives=_gives(terminal))
    match terminal:
        case AppendTerminal(depot=depot):
            return TerminalChart(terminal.tag, terminal.label, "each", depot=depot)
        case ObserveTerminal(name=name, column=column):
            counts = name if column is None else None
            return TerminalChart(terminal.tag, terminal.label, "told", counts=counts)
        case AggregateTerminal() | FoldTerminal() | WindowTerminal():
            return TerminalChart(terminal.tag, terminal.label, "folded", gives=chart.gives)
        case ProcessTerminal(route="all", states=states):
            count = program.pstates[states[0]].vnode_count
            return TerminalChart(terminal.tag, terminal.label, "each", copies=count)
    return chart


def _gives(terminal: Terminal) -> Makes:
    match terminal:
        case AskTerminal():  # an answer may be any number of rows
            return "any"
        case LookupTerminal() | MaterializeTerminal():
            return "one"
        case FirstSeenTerminal():
            return "at most one"
    return "any"
