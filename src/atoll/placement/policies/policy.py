"""Policies: how many parallel units a topology asks for.

A topology's policy is kept as text in the cluster info, ``adaptive`` where none was set. It
decides a count and never fails: where there are fewer units than asked, all are used. Which units
these are is said by :mod:`atoll.placement.reschedule.replan`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from math import floor

import msgspec

from atoll.errors import UsageError

POLICY_DEFAULT = "adaptive"
"""Of a topology for which none was set."""

_GRAMMAR = "write adaptive, fixed(3) or 3, bounded(4), ratio(0.5), or load(1,8)"


class Adaptive(msgspec.Struct, frozen=True):
    """All units that there are."""

    def __str__(self) -> str:
        """As :func:`parse_policy` reads it."""
        return "adaptive"


class _Counted(msgspec.Struct, frozen=True):
    """A policy that names a number of units.

    Attributes:
        count: From 1.

    Raises:
        UsageError: When the count cannot be.
    """

    count: int

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if type(self.count) is not int or self.count < 1:
            raise UsageError(f"{self} cannot be", hint="give a whole number of units from 1")

    def __str__(self) -> str:
        """As :func:`parse_policy` reads it."""
        return f"{type(self).__name__.lower()}({self.count})"


class Fixed(_Counted, frozen=True):
    """So many units; with fewer in the cluster all of them, and the rest when they come."""


class Bounded(_Counted, frozen=True):
    """All units, up to so many.

    The same number as :class:`Fixed` gives; but with fewer it has all that it asks for.
    """


class Ratio(msgspec.Struct, frozen=True):
    """A part of all units, rounded down, but at least one.

    Attributes:
        ratio: From 0 (always one unit) to 1 (all).

    Raises:
        UsageError: When the ratio cannot be.
    """

    ratio: float

    def __post_init__(self) -> None:
        """Refuse what cannot be; NaN fails both comparisons."""
        if not 0 <= self.ratio <= 1:
            raise UsageError(f"{self} cannot be", hint="give a number from 0 to 1")

    def __str__(self) -> str:
        """As :func:`parse_policy` reads it."""
        return f"ratio({self.ratio!r})"


class Load(msgspec.Struct, frozen=True):
    """As many units as the load asks for (:mod:`atoll.placement.policies.load`), within two bounds.

    Attributes:
        least: The fewest, from 1.
        most: The most.

    Raises:
        UsageError: When the bounds cannot be.
    """

    least: int
    most: int

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not 1 <= self.least <= self.most:
            raise UsageError(
                f"{self} cannot be", hint="give the fewest units, from 1, then the most"
            )

    def __str__(self) -> str:
        """As :func:`parse_policy` reads it."""
        return f"load({self.least},{self.most})"


class Custom(msgspec.Struct, frozen=True):
    """As many units as a person's reschedule left it with; nothing but a loss changes them."""

    def __str__(self) -> str:
        """As :func:`parse_policy` reads it when it may be custom."""
        return "custom"


Policy = Adaptive | Fixed | Bounded | Ratio | Load | Custom


def parse_policy(text: str, *, custom_allowed: bool = False) -> Policy:
    """The policy that a text names, in lower or upper case; ``str`` of it gives the text back.

    Args:
        text: ``adaptive``, ``fixed(3)`` or ``3``, ``bounded(4)``, ``ratio(0.5)``, ``load(1,8)``.
        custom_allowed: Whether it may be ``custom`` too: it is what a reschedule leaves behind,
            and so it is read from the cluster info but never set by hand.

    Raises:
        UsageError: When it names none, or its number is out of range.
    """
    plain = text.strip().lower()
    if plain == "adaptive":
        return Adaptive()
    if plain == "custom" and custom_allowed:
        return Custom()
    if plain == "custom":
        raise UsageError("custom is no policy to set", hint="reschedule the topology's fragments")
    if plain.lstrip("+-").isdecimal():
        plain = f"fixed({plain})"
    found = _CALL.fullmatch(plain)
    try:
        if found:
            return _CALLS[found["name"]](found["argument"])
    except ValueError:  # the argument is no number, or no whole one
        pass
    raise UsageError(f"{text!r} is no policy", hint=_GRAMMAR)


_CALL = re.compile(r"(?P<name>fixed|bounded|ratio|load)\s*\(\s*(?P<argument>[-+.,\s0-9a-z]*?)\s*\)")
_CALLS: dict[str, Callable[[str], Policy]] = {
    "fixed": lambda argument: Fixed(int(argument)),
    "bounded": lambda argument: Bounded(int(argument)),
    "ratio": lambda argument: Ratio(float(argument)),
    "load": lambda argument: Load(*_two_counts(argument)),
}


def _two_counts(argument: str) -> tuple[int, int]:
    least, most = argument.split(",")
    return int(least), int(most)


def target(policy: Policy, available: int, vnode_count: int | None, current: int) -> int:
    """How many units a policy asks for: never more than there are, or than there are vnodes.

    Args:
        policy: The policy.
        available: How many units there are.
        vnode_count: Of the fragment; None for a source fragment, which has none.
        current: How many units it has now.
    """
    match policy:
        case Adaptive():
            wanted = available
        case Fixed(count) | Bounded(count):
            wanted = count
        case Ratio(ratio):  # as written in decimals: 0.29 of 100 are 29, but 28 in floats
            wanted = max(1, floor(Fraction(repr(ratio)) * available))
        case Load(least, most):  # between them the load decides
            wanted = max(least, min(current, most))
        case Custom():
            wanted = current
    return min(wanted, available, available if vnode_count is None else vnode_count)
