"""What a subscriber receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from atoll.errors import UsageError
from atoll.pstate.differences import Difference, applied


class Position(NamedTuple):
    """How far a subscriber has come: a commit, and the timeline on which it counted."""

    microbatch: int
    timeline: int = 0

    def __str__(self) -> str:
        """``7``, or ``7@1`` when the topology had gone back once before."""
        return f"{self.microbatch}@{self.timeline}" if self.timeline else str(self.microbatch)

    @classmethod
    def of(cls, given: Position | str | int) -> Self:
        """The position that a caller names.

        Raises:
            UsageError: When it is none.
        """
        if isinstance(given, tuple):
            return cls(*given)
        parts = str(given).split("@")
        if len(parts) > 2 or not all(  # noqa: PLR2004 - number and timeline
            part.isascii() and part.isdecimal() and len(part) <= 18  # noqa: PLR2004 - 63 bits
            for part in parts
        ):
            raise UsageError(
                f"{given!r} is no position of a subscription",
                hint="give the microbatch's number, or the position of the last change received",
            )
        return cls(*map(int, parts))


@dataclass(frozen=True, slots=True)
class ValueChange:
    """What one commit changed of a value, or where a subscriber begins.

    Attributes:
        kind: ``snapshot``: the value as the subscription began; ``change``: what one commit
            changed of it; ``resync``: the value again, because what happened since the last one
            cannot be told.
        microbatch: The commit as of which it is told.
        timeline: How many rollbacks the topology had lived through.
        differences: Where the value differs. Those of a snapshot's first page replace the value
            as a whole, those of further pages add to it.
        old: The value before; None of a snapshot. Of a collection that is stored element by
            element only the entries that changed, in its shape; None when all are new.
        new: The value now; of such a collection only the entries of ``differences``.
        page: Which page of a snapshot or resync it is, from 0; 0 of a change.
        last: Whether it is the last page.
        reason: Of a resync why: ``gap`` or ``rollback``; else empty.
    """

    kind: Literal["snapshot", "change", "resync"]
    microbatch: int
    timeline: int
    differences: tuple[Difference, ...]
    old: Any = None
    new: Any = None
    page: int = 0
    last: bool = True
    reason: str = ""

    @property
    def position(self) -> str:
        """Where to go on after it: ``app.subscribe(..., after=change.position)``."""
        return str(Position(self.microbatch, self.timeline))

    def apply(self, value: Any = None) -> Any:
        """The value after this change.

        Args:
            value: What the change before gave here: it is changed in place where it can be, and
                must not be used any more. None at the beginning.
        """
        return applied(value, self.differences)

    def as_dict(self) -> dict[str, Any]:
        """Everything of it as plain data."""
        return {
            "kind": self.kind,
            "microbatch": self.microbatch,
            "timeline": self.timeline,
            "position": self.position,
            "page": self.page,
            "last": self.last,
            "reason": self.reason,
            "old": self.old,
            "new": self.new,
            "differences": [_as_dict(each) for each in self.differences],
        }


def _as_dict(difference: Difference) -> dict[str, Any]:
    found = {
        "path": list(difference.path),
        "kind": difference.kind,
        "old": difference.old,
        "new": difference.new,
    }
    return found if difference.index is None else {**found, "index": difference.index}
