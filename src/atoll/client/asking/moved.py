"""What a change of placement does or did, as a service tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Moved"]


@dataclass(frozen=True)
class Moved:
    """What a reschedule moves or moved; the members that a local plan has as well.

    Attributes:
        dry_run: Whether it was only said.
        revision: Of the cluster afterwards.
        vnodes_moved: How many vnodes change owner.
        bytes_moved: How many bytes change worker; None where that is not known.
        fragments: By deciding fragment ``added``, ``removed``, ``vnodes_moved`` and ``vnodes``.
        shortage: What a policy asked for and did not get; None when nothing.
    """

    dry_run: bool
    revision: int
    vnodes_moved: int
    bytes_moved: int | None
    fragments: Mapping[int, Mapping[str, Any]]
    shortage: Mapping[str, Any] | None

    @property
    def is_noop(self) -> bool:
        """Whether no action is required."""
        return not self.fragments


def moved_of(data: Mapping[str, Any]) -> Moved:
    """What the service answered."""
    return Moved(
        dry_run=data["dry_run"],
        revision=data["revision"],
        vnodes_moved=data["vnodes_moved"],
        bytes_moved=data["bytes_moved"],
        fragments={int(root): each for root, each in data["fragments"].items()},
        shortage=data["shortage"],
    )
