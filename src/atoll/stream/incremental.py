"""The join that remembers; :class:`~atoll.stream.stream.Stream` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from atoll.topology.usercode import declared_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.stream.stream import Stream

__all__ = ["Incremental"]


class Incremental:
    """Joins of rows of different microbatches."""

    __slots__ = ()

    def incremental_join(
        self,
        other: Stream,
        on: str | Sequence[str],
        how: str = "inner",
        *,
        unique: Literal["left", "right"] | None = None,
        name: str | None = None,
    ) -> Stream:
        """Put rows that belong together side by side, whenever each of them comes.

        A row of the result comes out once, in the microbatch in which the later of its two rows
        came; which rows there are does not depend on how records are cut into microbatches. The
        step keeps rows of both sides in a PState of its own.

        Args:
            other: A stream of the same topology.
            on: Columns of both streams, which come out once and first; or equalities of two
                columns: ``"left.auction = right.id"``. Null equals nothing.
            how: ``inner``.
            unique: The side that has at most one row of each key. Then a row of the other side
                is kept only until that one has come. Of further rows of a key on the unique
                side the first stays; the others are dropped.
            name: What to call the rows that it keeps, where two joins would not be told apart.

        Raises:
            DeclarationError: When that cannot be. Columns are checked at the deployment.
        """
        from atoll.steps.incremental_join import builders as incremental_joins
        from atoll.stream.stream import Stream

        assert isinstance(self, Stream)
        return incremental_joins.join(self, other, on, how, unique, name, declared_at(1))
