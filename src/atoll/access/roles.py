"""Who calls, and what a role may do.

Each role may do what the one before it may: a *viewer* reads, an *operator* also appends and runs
what is deployed, an *author* also decides which code and which runtimes run, an *admin* also
reads who did what.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Caller", "Role", "local_caller"]


class Role(StrEnum):
    """What a caller may do, from the least to the most."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    AUTHOR = "author"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether who has this role may do what that one may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: always known from a credential, never from what a request says of itself.

    Attributes:
        name: Of the person or program, as the log of changes names it.
        role: What it may do.
        how: What it was known by: ``token``, ``session``, ``socket``, ``oidc``,
            or ``open`` where the service asks nobody.
        modules: The only modules that it may see; None for all.
        token: The id of the token, where there is one.
    """

    name: str
    role: Role
    how: str
    modules: frozenset[str] | None = None
    token: str | None = None

    def sees(self, module: str) -> bool:
        """Whether a module is there for it."""
        return self.modules is None or module in self.modules


def local_caller() -> Caller:
    """Anybody, where a service on the loopback address asks nobody who calls."""
    return Caller("anybody on this machine", Role.ADMIN, "open")
