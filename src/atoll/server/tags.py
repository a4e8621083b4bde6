"""Which commit an answer is of: ``ETag: "timeline.microbatch"``, and whether a client knows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from atoll.errors import PathError, UsageError

if TYPE_CHECKING:
    from atoll.microbatch.commits.history import CommitHistory
    from atoll.views.readable import ReadablePState

_Read = TypeVar("_Read")

_TRIES = 3


def at_one_commit(
    pstate: ReadablePState, reading: Callable[[ReadablePState], _Read]
) -> tuple[_Read, CommitHistory]:
    """What is read of a PState, and the commit of which it is.

    A read sees one commit. When no other came while it read, that was it; where they come too
    fast for that, one is named and read.
    """
    for _ in range(_TRIES):
        before = pstate.history()
        found = reading(pstate)
        if pstate.history() is before:
            return found, before
    pinned = pstate.as_of(pstate.history().commit_id)
    return reading(pinned), pinned.history()


def tag_of(commit: CommitHistory, *, values: bool) -> str:
    """The tag of a commit: ``"0.7"``; of the other representation, ``"0.7;values"``."""
    return f'"{commit.timeline}.{commit.commit_id}{";values" if values else ""}"'


def matches(given: str, tag: str) -> bool:
    """Whether a list of tags, or ``*``, names this one."""
    known = [each.strip().removeprefix("W/") for each in given.split(",")]
    return "*" in known or tag in known


def read_path_text(text: str) -> list[Any]:
    """A path as it stands in an address.

    Raises:
        UsageError: When it is no JSON, or no array.
        PathError: When it is nested too deeply.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise PathError("the path is nested too deeply", hint="write it flatter") from None
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise UsageError(
            "path is no JSON array", hint='write it like [["key","a"]], encoded for a URL'
        )
    return found
