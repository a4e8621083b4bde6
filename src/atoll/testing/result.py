"""What a microbatch under a test driver did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atoll.microbatch.commits.objects import Commit


@dataclass(frozen=True, slots=True)
class Ran:
    """A committed microbatch.

    Attributes:
        id: Its number.
        version: Which attempt committed; 1 when none had failed.
        records: How many records it took.
        ranges: Per depot and partition the first offset taken and the one after the last.
    """

    id: int
    version: int
    records: int
    ranges: dict[str, list[tuple[int, int]]]


def ran(commit: Commit) -> Ran:
    """What a commit says of its microbatch."""
    return Ran(commit.id, commit.version, commit.records, commit.ranges)
