"""Cuts a topology into the Spark jobs of a microbatch, and each job into fragments.

A job is what runs between two points where the driver knows which task attempts won. State steps
of the same depth share a job: their rows cross one exchange together, each row tagged with its
step. A step that emits rows (``process``, ``lookup``, ``changes``) stages them, and the steps
after it run in a later job, so that nothing with side effects is ever recomputed.

Depth: a step's job is the number of emitting steps on the longest way to it from a source;
``changes`` of a PState run in the job of the last step that writes it.

Pure: it knows the declarations and nothing of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.topology.operator import BatchOperator, ColumnOperator, Operator, StateOperator

if TYPE_CHECKING:
    from collections.abc import Collection

    from atoll.topology.graph import Graph

Step = BatchOperator | ColumnOperator
"""What tasks do with rows on their way to a state step."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps from where rows enter a task to the state step that ends their fragment.

    ``origin`` is a root (a source, or an emitting step of an earlier job) or a column operator,
    whose DataFrame the chain continues.
    """

    origin: Operator
    steps: tuple[Step, ...]
    """A union among them only aligns the columns of its branches; column steps are those whose
    expressions the tasks compute."""
    end: StateOperator
    """The state step that its rows come to."""


@dataclass(frozen=True)
class Job:
    """One Spark job: chains that end at state steps, and the state steps in declared order."""

    index: int
    chains: tuple[Chain, ...]
    steps: tuple[StateOperator, ...]


@dataclass(frozen=True)
class Cut:
    """A topology, cut. ``number`` gives every operator its place, the same in every process."""

    jobs: tuple[Job, ...]
    number: dict[Operator, int]

    def last_writing_job(self, name: str) -> int:
        """The index of the last job that writes the PState of that name, or -1."""
        return max(
            (
                job.index
                for job in self.jobs
                for step in job.steps
                if any(pstate.name == name for pstate in step.writes)
            ),
            default=-1,
        )


def cut_into_jobs(graph: Graph, computed: Collection[Operator] = ()) -> Cut:
    """Cut a topology.

    Args:
        graph: The topology.
        computed: The column steps that the tasks run, beside unions.

    Raises:
        DeclarationError: When steps wait for each other's changes in a circle.
    """
    jobs_of = _job_indices(graph)
    number = {operator: index for index, operator in enumerate(graph.operators)}
    jobs = []
    for index in range(max(jobs_of.values(), default=-1) + 1):
        steps = tuple(step for step in graph.state_operators if jobs_of[step] == index)
        chains = tuple(chain for step in steps for chain in _chains(step, computed))
        jobs.append(Job(index, chains, steps))
    return Cut(tuple(jobs), number)


def _job_indices(graph: Graph) -> dict[StateOperator, int]:
    depth: dict[Operator, int] = {}
    visiting: set[Operator] = set()

    def entering(step: StateOperator) -> int:
        """The job in which a state step runs."""
        if step in depth:
            return depth[step]
        if step in visiting:
            raise DeclarationError(
                f"topology {graph.topology!r} has steps that wait for each other's changes",
                hint="a PState's changes cannot lead back into that PState",
                declared=step.place,
            )
        visiting.add(step)
        if step.follows is not None:
            depth[step] = max((entering(w) for w in graph.writers(step.follows)), default=0)
        else:
            depth[step] = max((leaving(each) for each in step.inputs), default=0)
        visiting.discard(step)
        return depth[step]

    def leaving(operator: Operator) -> int:
        """The first job in which the rows after an operator can be used."""
        if isinstance(operator, StateOperator):
            return entering(operator) + 1
        return max((leaving(each) for each in operator.inputs), default=0)

    return {step: entering(step) for step in graph.state_operators}


def _chains(end: StateOperator, computed: Collection[Operator]) -> list[Chain]:
    """The ways into a state step: up through the tasks' steps to where rows come from."""
    chains: list[Chain] = []

    def climb(operator: Operator, below: tuple[Step, ...]) -> None:
        if isinstance(operator, BatchOperator) or operator in computed:
            assert isinstance(operator, BatchOperator | ColumnOperator)
            climb(operator.inputs[0], (operator, *below))
        elif isinstance(operator, ColumnOperator) and operator.unites:
            for each in operator.inputs:
                climb(each, (operator, *below))
        else:
            chains.append(Chain(operator, below, end))

    for each in end.inputs:
        climb(each, ())
    return chains
