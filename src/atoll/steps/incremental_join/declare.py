"""Rows of two streams that belong together, whenever they come: ``bids.incremental_join(...)``.

Where :class:`~atoll.steps.columns.join.Join` sees the rows of one microbatch, this keeps rows of
both sides in a private PState until those that belong to them have come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from atoll.topology.operator import BatchOperator, StateOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.pstate.spec import PStateSpec
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.operator import Makes
    from atoll.topology.usercode import Rejects

Side = Literal["left", "right"]


@dataclass(frozen=True, eq=False)
class JoinSide(BatchOperator):
    """Marks the rows that come to a join from the right; changes nothing of them."""

    makes: ClassVar[Makes] = "one"
    runs_own_code: ClassVar[bool] = True
    passes: ClassVar[bool] = True
    is_side: ClassVar[bool] = True
    drawn: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """As users write it."""
        return "incremental_join"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's."""
        return inputs[0]

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Each batch as it is."""
        return batches


@dataclass(frozen=True, eq=False)
class JoinOfSides(StateOperator):
    """What both kinds of joins over microbatches are.

    ``inputs`` are the left side and the right one, the latter through a :class:`JoinSide`.
    ``names`` are key columns of both sides, which come out once and first; ``pairs`` are further
    keys, a column of the left side and one of the right.
    """

    keeps_records: ClassVar[bool] = False

    names: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        """As users write it."""
        return "incremental_join"

    @property
    def side(self) -> JoinSide:
        """What marks the rows of the right side."""
        side = self.inputs[1]
        assert isinstance(side, JoinSide)
        return side

    def keys(self, side: Side) -> tuple[str, ...]:
        """The key columns of a side."""
        return (*self.names, *(pair[side == "right"] for pair in self.pairs))

    @property
    def emits(self) -> bool:
        """Rows that belong together, or how they change."""
        return True

    @property
    def holds_back(self) -> bool:
        """Until a partner comes."""
        return True


@dataclass(frozen=True, eq=False)
class IncrementalJoin(JoinOfSides):
    """Rows of the left and the right side with equal keys, once, when the later of them comes."""

    unique: Side | None
    """The side that has at most one row of each key."""
    state: PStateDeclaration
    """Its rows; the schema is found from the types that reach the step."""

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Its own."""
        return (self.state,)

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The shared key columns, the others of the left side, then those of the right."""
        from atoll.steps.incremental_join.bind import join_schema

        left, right = inputs
        return join_schema(self, (left, right))

    def hidden_specs(self, inputs: Sequence[pa.Schema]) -> dict[str, PStateSpec]:
        """The rows of both sides."""
        from atoll.steps.incremental_join.bind import join_spec

        left, right = inputs
        return {self.state.name: join_spec(self, (left, right))}

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """What takes the right side's rows, and the join."""
        from atoll.steps.incremental_join.bind import bound_join

        return bound_join(self, binding)
