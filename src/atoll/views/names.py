"""Which names of a module's parts somebody outside may know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from atoll.errors import NotFoundError, UsageError


def is_hidden(pstate: str) -> bool:
    """Whether a PState of that name is a step's own, which no user declared or can name."""
    return pstate.startswith("_")


def not_found(kind: str, name: str, known: Iterable[str], module: str) -> NotFoundError:
    """The error for a part that a module does not have; the caller raises it.

    Args:
        kind: ``PState``, ``depot`` and so on.
        name: What was asked for.
        known: The names that may be asked for.
        module: The module's name.
    """
    return NotFoundError(
        f"module {module!r} has no {kind} {name!r}",
        hint="it has " + (", ".join(sorted(known)) or "none"),
    )


def part_name(part: Any, module: str) -> str:
    """The name of a part of a module, of which the name or the declaration is given.

    Raises:
        UsageError: When it is another module's, or neither.
    """
    if isinstance(part, str):
        return part
    owner = getattr(part, "module", None)
    name, of = getattr(part, "name", None), getattr(owner, "name", owner)
    if not isinstance(name, str) or of is None:
        raise UsageError(
            f"{part!r} is no part of a module",
            hint="give its name, or what the module's declaration returned",
        )
    if of != module:
        raise UsageError(f"{part!r} is no part of module {module!r}", hint=f"ask module {of!r}")
    return name
