"""Rows of two streams that belong together, where the result changes: outer, semi, anti, timed.

:class:`~atoll.steps.incremental_join.declare.IncrementalJoin` makes pairs that never change. Here
a row that had no partner gets one, or a partner goes, so that what comes out are changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.steps.changing_join.signed import Changing
from atoll.steps.deduplicate.declare import InTime
from atoll.steps.incremental_join.declare import JoinOfSides, Side

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.pstate.spec import PStateSpec
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.times import Clock


@dataclass(frozen=True)
class Within:
    """How far apart in time rows may be to belong together, and how long they are kept for it.

    Attributes:
        lower_ms: The time of the right row less that of the left one is this at least,
        upper_ms: and this at most.
        left: The left side's event time; None: when its rows come, by the clock.
        right: The right side's.
    """

    lower_ms: int
    upper_ms: int
    left: str | None = None
    right: str | None = None

    def column(self, side: Side) -> str | None:
        """The event time of a side."""
        return self.left if side == "left" else self.right

    def keeps_ms(self, side: Side) -> int:
        """How long after a row's time a partner of it may have its own."""
        return self.upper_ms if side == "left" else -self.lower_ms


class JoinInTime(InTime):
    """The rows of a side whose time the watermark has not passed."""

    @property
    def title(self) -> str:
        """As users write it."""
        return "incremental_join"


@dataclass(frozen=True, eq=False)
class ChangingJoin(JoinOfSides):
    """How the rows of a join change, as rows of both sides come and go."""

    how: str
    """``inner``, ``left``, ``right``, ``full``, ``left_semi`` or ``left_anti``."""
    unique: Side | None
    """The side that has at most one row of each key."""
    left: Changing | None
    """What the changes on the left are of; None: its rows only come."""
    right: Changing | None
    within: Within | None
    clock: Clock
    states: tuple[PStateDeclaration, ...]
    """The rows; and with ``within`` beside them when they are forgotten."""

    @property
    def detail(self) -> str:
        """Which join it is."""
        return self.how.removeprefix("left_")

    def preserves(self, side: Side) -> bool:
        """Whether rows of a side come out that have no partner."""
        return self.how in ((side, "full") if side == "right" else ("left", "full", "left_anti"))

    @property
    def one_sided(self) -> bool:
        """Whether rows of the left side come out alone."""
        return self.how in ("left_semi", "left_anti")

    def changes_on(self, side: Side) -> Changing | None:
        """What the changes on a side are of."""
        return self.left if side == "left" else self.right

    @property
    def only_adds(self) -> bool:
        """Whether rows that came out stay, so that they come out as they are."""
        return self.how == "inner" and self.left is None and self.right is None

    @property
    def changing(self) -> Changing | None:
        """What its changes are of."""
        return None if self.only_adds else Changing(self.keys("left"), inside=True)

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Its own."""
        return self.states

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The keys, the old row and the new one; or the row."""
        from atoll.steps.changing_join.bind import emitted_schema

        left, right = inputs
        return emitted_schema(self, (left, right))

    def hidden_specs(self, inputs: Sequence[pa.Schema]) -> dict[str, PStateSpec]:
        """The rows of both sides, and when they are forgotten."""
        from atoll.steps.changing_join.bind import kept_specs

        left, right = inputs
        return kept_specs(self, (left, right))

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """What takes the right side's rows, and the join."""
        from atoll.steps.changing_join.bind import bound_join

        return bound_join(self, binding)
