"""The steps of a stream that put rows beside others: of one microbatch, and of any."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from atoll.steps.columns import joins
from atoll.steps.incremental_join import build as incremental_join
from atoll.topology.flow import Flow
from atoll.topology.usercode import declared_at

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from atoll.topology.declared import PStateDeclaration, Target

    Duration = str | dt.timedelta

S = TypeVar("S")


class Joining(Flow, ABC, Generic[S]):
    """Rows that can be joined; ``S`` is the stream of what comes out."""

    __slots__ = ()

    @abstractmethod
    def _at(self, flow: Flow) -> S:
        """The stream at a point of the graph."""

    def join(
        self,
        other: Flow | Target | PStateDeclaration,
        on: str | Sequence[str] | None = None,
        how: str = "inner",
        *,
        column: str | None = None,
    ) -> S:
        """Put rows of this microbatch that belong together side by side.

        Args:
            other: A stream of the same topology; or a place in a PState, whose value comes
                beside each row: ``join(profiles["user_id"], how="left", column="profile")``.
            on: Columns of both streams, which come out once; or conditions over ``left.x`` and
                ``right.y``. Not for a PState.
            how: ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``; for a PState
                ``inner`` or ``left``.
            column: What to call a PState's value; else it is called as the PState.

        Raises:
            DeclarationError: When that cannot be.
        """
        return self._at(joins.join(self, other, on, how, column, declared_at(1)))

    def incremental_join(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        other: Flow,
        on: str | Sequence[str],
        how: str = "inner",
        *,
        unique: Literal["left", "right"] | None = None,
        within: Duration | tuple[Duration, Duration] | None = None,
        at: str | tuple[str, str] | None = None,
        name: str | None = None,
    ) -> S:
        """Put rows that belong together side by side, whenever each of them comes.

        Which rows there are does not depend on how records are cut into microbatches. The step
        keeps rows of both sides in a PState of its own. Of an inner join each row comes out once,
        when the later of its two rows has come. The others, and those of a side that is itself
        changes (what ``changes()`` or such a join returned), give changes: the keys by their
        names on the left, the row before (``old``) and the row after (``new``), each a struct.

        Args:
            other: A stream of the same topology.
            on: Columns of both streams, which come out once and first; or equalities of two
                columns: ``"left.auction = right.id"``. Null equals nothing.
            how: ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``.
            unique: The side that has at most one row of each key, so that a row of the other is
                kept only until that one has come; of further rows the first stays.
            within: How far apart in time rows may be, and so how long each is kept; of two: the
                least and the most by which the right one is after the left one.
            at: The event time by which that goes, of each side; by the clock when None.
            name: What to call the rows that it keeps, where two joins would not be told apart.

        Raises:
            DeclarationError: When that cannot be. Columns are checked at the deployment.
        """
        how_far = (within, at, name, declared_at(1))
        return self._at(incremental_join.join(self, other, on, how, unique, *how_far))
