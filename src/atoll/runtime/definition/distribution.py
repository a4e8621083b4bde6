"""The section ``distribution``: how many copies of a runtime there are, and how events find one.

Coral also let a definition choose machines. Atoll places copies on the parallel units of its
workers by itself and moves them when workers come and go, so a choice of machines could not be
kept: each such mode is refused by name rather than accepted and forgotten.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from atoll.runtime.definition.actor import COPIES_MAX
from atoll.runtime.definition.reading import read, shown
from atoll.runtime.definition.structs import Distribution
from atoll.runtime.problems import Problem

MODES = ("duplicate", "round-robin")
_OF_CORAL = {
    "local",
    "predefined",
    "random",
    *("least-nr-runtimes", "least-nr-actors", "least-busy"),
    *("split-predefined", "split-least-busy", "split-random"),
    *("split-least-nr-runtimes", "split-least-nr-actors"),
}
_PLACED = "leave it out: copies are spread over the workers' parallel units"


class DistributionGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a runtime is copied.

    Args:
        mode: ``duplicate`` or ``round-robin``; they mean the same, that copies are spread over the
            parallel units in turn.
        copies: How many there are.
        by: The field whose value says which copy takes an event; without it events go round
            robin.
    """

    mode: str = "duplicate"
    copies: Annotated[int, msgspec.Meta(ge=1, le=COPIES_MAX)] = 1
    by: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None


def read_distribution(given: Any) -> tuple[Distribution, list[Problem]]:
    """The copies of a definition, and what is wrong with the section."""
    if given is None:
        return Distribution(), []
    found, problems = read(
        given, DistributionGiven, "distribution", {"machines": _PLACED, "machine": _PLACED}
    )
    mode = given.get("mode") if isinstance(given, dict) else None
    if isinstance(mode, str) and mode not in MODES:
        known = mode in _OF_CORAL
        what = f"{shown(mode)} chooses machines" if known else f"there is no mode {shown(mode)}"
        hint = _PLACED if known else "write 'duplicate'"
        problems.append(Problem("distribution", "/mode", what, hint))
    if found is None or problems:
        return Distribution(), problems
    return Distribution(found.copies, found.by), []
