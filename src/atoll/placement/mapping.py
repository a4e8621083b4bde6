"""Vnode mappings: which parallel unit owns each vnode of a fragment.

A mapping covers every vnode exactly once. The even mapping gives every unit a run of
neighbouring vnodes, the first ``V % n`` units one more than the others, so that scans of one
unit are runs of the key space and two computations of it always agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from atoll.errors import DeclarationError, UsageError
from atoll.placement.vnodes import check_vnode_count


@dataclass(frozen=True, slots=True)
class Mapping:
    """The owner of each vnode; immutable, so that it may be shared and compared.

    Args:
        units: The id of the parallel unit that owns vnode 0, 1, 2 and so on.
    """

    units: tuple[int, ...]

    def __post_init__(self) -> None:
        """Hold what every mapping must be.

        Raises:
            DeclarationError: When there are no vnodes, or too many.
            UsageError: When an owner is no id (an int from 0).
        """
        check_vnode_count(len(self.units))
        for unit in set(self.units):
            if type(unit) is not int or unit < 0:
                raise UsageError(
                    f"{unit!r} is no parallel unit's id", hint="ids are ints from 0 upwards"
                )

    @classmethod
    def even(cls, vnode_count: int, unit_ids: Iterable[int]) -> Mapping:
        """The even mapping of that many vnodes to these units, in the order of their ids.

        Raises:
            DeclarationError: When the vnode count cannot be.
            UsageError: When there is no unit, a unit twice, or more units than vnodes.
        """
        units = sorted(unit_ids)
        check_vnode_count(vnode_count)
        if len(set(units)) != len(units):
            raise UsageError("a parallel unit is named twice", hint="name each once", units=units)
        if not 1 <= len(units) <= vnode_count:
            raise UsageError(
                f"{vnode_count} vnodes cannot be shared by {len(units)} parallel units",
                hint=f"use 1 to {vnode_count} parallel units",
            )
        sizes = _even_sizes(vnode_count, len(units))
        return cls(
            tuple(unit for unit, size in zip(units, sizes, strict=True) for _ in range(size))
        )

    @property
    def vnode_count(self) -> int:
        """How many vnodes there are."""
        return len(self.units)

    def unit_ids(self) -> tuple[int, ...]:
        """The units that own at least one vnode, sorted."""
        return tuple(sorted(set(self.units)))

    def owner(self, vnode: int) -> int:
        """The unit that owns the vnode.

        Raises:
            UsageError: When there is no such vnode.
        """
        if 0 <= vnode < len(self.units):
            return self.units[vnode]
        raise UsageError(
            f"there is no vnode {vnode}", hint=f"vnodes are 0 to {len(self.units) - 1}"
        )

    def vnodes(self, unit: int) -> tuple[int, ...]:
        """The vnodes that the unit owns, sorted; none when it is no part of the mapping."""
        return tuple(vnode for vnode, owner in enumerate(self.units) if owner == unit)

    def counts(self) -> dict[int, int]:
        """How many vnodes each unit owns, by unit id in order."""
        return dict(sorted(Counter(self.units).items()))

    def groups(self, count: int) -> list[tuple[int, ...]]:
        """All vnodes in up to ``count`` groups for a scan, each sorted, even in size.

        Vnodes of one owner stay together as far as even sizes allow: an even mapping in as
        many groups as it has units gives exactly the vnodes of each unit.

        Raises:
            UsageError: When the count is below 1.
        """
        if count < 1:
            raise UsageError(f"{count} groups cannot be", hint="ask for at least one group")
        by_owner = sorted(range(len(self.units)), key=lambda vnode: (self.units[vnode], vnode))
        groups, start = [], 0
        for size in _even_sizes(len(by_owner), min(count, len(by_owner))):
            groups.append(tuple(sorted(by_owner[start : start + size])))
            start += size
        return groups

    def to_json(self) -> list[list[int]]:
        """The mapping as runs ``[unit, vnodes in the run]``; :meth:`from_json` reads them."""
        return [[unit, len(list(run))] for unit, run in groupby(self.units)]

    @classmethod
    def from_json(cls, data: Any) -> Mapping:
        """The mapping that :meth:`to_json` wrote.

        Raises:
            DeclarationError: When the data is no mapping.
        """
        match data:
            case [*runs] if all(_is_run(run) for run in runs):
                return cls(tuple(unit for unit, size in runs for _ in range(size)))
        raise DeclarationError("the data is no vnode mapping", hint="give [[unit, vnodes], ...]")


def _even_sizes(total: int, parts: int) -> list[int]:
    quotient, rest = divmod(total, parts)
    return [quotient + (part < rest) for part in range(parts)]


def _is_run(run: Any) -> bool:
    match run:
        case [int(), int() as size]:
            return size > 0
    return False
