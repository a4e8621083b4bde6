"""What a step is bound with: the types around it, when its module is deployed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.pstate.spec import PStateSpec
    from atoll.topology.declared import Target
    from atoll.topology.operator import Operator

Schemas = Mapping["Operator", "pa.Schema"]
"""The columns after every operator."""


class StepName(NamedTuple):
    """How a bound step is told from others."""

    tag: int
    """Its operator's number in the topology."""
    title: str
    place: str


class Kept(NamedTuple):
    """What an aggregate keeps at one place of a PState."""

    target: Target
    field: str
    """The struct's field; empty for the whole value."""
    finish: str
    """How what it keeps becomes what readers see; ``plain`` when it is the same."""
    aggregate: str
    place: str


@dataclass(frozen=True)
class Binding:
    """A topology while its steps are bound.

    Attributes:
        topology: Its name.
        own: The PStates that it writes.
        queries: The module's queries, by name.
        number: The number of each operator.
        schemas: The columns after each operator.
        specs: The PStates that it writes or reads, by name.
    """

    topology: str
    own: Collection[str]
    queries: Mapping[str, Any]
    number: Mapping[Operator, int]
    schemas: Schemas
    specs: Mapping[str, PStateSpec]

    def name(self, operator: Operator, title: str = "") -> StepName:
        """What tells an operator's bound step."""
        return StepName(self.number[operator], title or operator.title, operator.place)

    def inputs(self, operator: Operator) -> list[pa.Schema]:
        """The columns of an operator's inputs."""
        return [self.schemas[each] for each in operator.inputs]

    def rows(self, operator: Operator) -> pa.Schema:
        """The columns of its first input."""
        return self.schemas[operator.inputs[0]]
