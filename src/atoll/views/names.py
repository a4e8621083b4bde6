"""Which names of a module's parts somebody outside may know."""

from __future__ import annotations

from collections.abc import Iterable

from atoll.errors import NotFoundError


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
