"""What a person or a policy asks for: which units fragments get and lose."""

from __future__ import annotations

import msgspec


class UnitChange(msgspec.Struct, frozen=True):
    """What changes for one fragment; both are sets, kept sorted.

    Attributes:
        added: Units that get an actor.
        removed: Units that lose theirs. A unit in both has its actor rebuilt in place: it keeps
            what it owns.
    """

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Sort, and drop duplicates, so that equal changes are equal values."""
        msgspec.structs.force_setattr(self, "added", tuple(sorted(set(self.added))))
        msgspec.structs.force_setattr(self, "removed", tuple(sorted(set(self.removed))))

    @property
    def rebuilt(self) -> tuple[int, ...]:
        """The units whose actors are rebuilt in place."""
        return tuple(unit for unit in self.added if unit in self.removed)

    def apply(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """The units that run the fragment afterwards, lowest first."""
        return tuple(sorted((set(units) - set(self.removed)) | set(self.added)))


class Request(msgspec.Struct, frozen=True):
    """What is asked for.

    Attributes:
        changes: By fragment.
        revision: The revision of the cluster that the asker looked at.
        resolve: Whether a change of a fragment that follows another is meant for its root.
    """

    changes: dict[int, UnitChange]
    revision: int
    resolve: bool = False
