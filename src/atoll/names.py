"""Which names users may give, and which Atoll keeps for its own folders. The only place for both.

A module's folder lies in the root, beside Atoll's own; a topology's lies in the module's, beside
those for depots, deployments and so on. Depots and PStates have folders to themselves.
"""

from __future__ import annotations

import re

from atoll.errors import DeclarationError

__all__ = ["RESERVED", "check_name", "mirrored_name", "sink_key", "sink_named"]

RESERVED = {
    "module": frozenset({"local", "meta"}),
    "topology": frozenset({"cluster", "depots", "deployments", "epochs", "options"}),
}
"""For each kind of name those of Atoll's own folders that lie where its folders do."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")


def check_name(name: object, kind: str, place: str) -> str:
    """The name, when it can name a module, topology, depot, tick, PState or query.

    Raises:
        DeclarationError: When it has other characters, or a folder of Atoll's has it. Letters
            that differ in case only are one folder on some systems.
    """
    if not isinstance(name, str) or not _NAME.match(name):
        raise DeclarationError(
            f"{name!r} cannot name a {kind}",
            hint="use 1 to 63 letters, digits, - and _, beginning with a letter or digit",
            declared=place,
        )
    if name.casefold() in RESERVED.get(kind, ()):
        raise DeclarationError(
            f"{name!r} cannot name a {kind}: a folder of Atoll's own has that name",
            hint=f"choose another name; where it is deployed already, deploy the {kind} under "
            f"another name with remove=['{kind}:{name}']"
            if kind == "topology"
            else "choose another name",
            declared=place,
        )
    return name


def mirrored_name(name: str) -> tuple[str, str] | None:
    """The module and the part's own name where a name is that of a mirror, ``module.name``."""
    module, dot, own = name.partition(".")
    return (module, own) if dot else None


_SINK = "sink:"


def sink_key(name: str) -> str:
    """Under which name a commit has the rows for a sink; no depot's name can be that."""
    return _SINK + name


def sink_named(target: str) -> str | None:
    """The sink that the rows of a commit are for; None when they are for a depot."""
    return target.removeprefix(_SINK) if target.startswith(_SINK) else None
