"""Follows records through topologies that append to each other's depots, by exact offsets.

A topology that has read up to some offsets says up to where all it appended by then lies in the
depots behind it; those who read these are waited for in turn. So nobody counts, and what others
append meanwhile is not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from atoll.errors import ReceiptError
from atoll.microbatch.commits.objects import Reach, further


class Passing(Protocol):
    """A topology, as those who wait for it see it."""

    @property
    def depots(self) -> Sequence[str]:
        """The depots that it reads."""

    def reads(self, depot: str, ends: Mapping[int, int]) -> bool:
        """Whether it reads any of the records; it may have begun behind them."""

    def passed(self, depot: str, ends: Mapping[int, int], left: float) -> tuple[int, Reach]:
        """Wait until it has; its last commit, and how far all commits up to it appended.

        Raises:
            WaitTimeoutError: When that takes longer than ``left`` seconds.
        """


@dataclass
class Chains:
    """Which topology appends to which depots, as declared.

    Attributes:
        appends_to: By topology the depots.
    """

    appends_to: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def between(
        self, depot: str, topology: str, readers: Mapping[str, Sequence[str]]
    ) -> frozenset[str]:
        """The topologies on the ways from a depot to a topology, itself too; none without a way.

        Args:
            depot: Where records come in.
            topology: Where they are to arrive.
            readers: By topology the depots that it reads.
        """
        after = {
            name: {
                other
                for target in self.appends_to.get(name, ())
                for other, read in readers.items()
                if target in read
            }
            for name in readers
        }
        reached = _closed({name for name, read in readers.items() if depot in read}, after)
        if topology not in reached:
            return frozenset()
        before = {name: {each for each in readers if name in after[each]} for name in readers}
        return frozenset(reached & _closed({topology}, before))

    def leading_to(
        self, topology: str, depots: Iterable[str], readers: Mapping[str, Sequence[str]]
    ) -> frozenset[str]:
        """The topologies on the ways from all of some depots to a topology, itself too.

        Raises:
            ReceiptError: When no way leads there from one of them.
        """
        found: frozenset[str] = frozenset()
        for depot in depots:
            ways = self.between(depot, topology, readers)
            if not ways:
                raise ReceiptError(
                    f"topology {topology!r} never sees what is appended to depot {depot!r}",
                    hint=f"it reads {', '.join(sorted(readers[topology])) or 'none'}",
                )
            found |= ways
        return found


def wait_passed(
    topologies: Mapping[str, Passing],
    wanted: Reach,
    timeout_seconds: float,
    among: Collection[str] | None = None,
) -> dict[str, int]:
    """Wait until topologies have read up to some offsets, and those behind them what came of it.

    Args:
        topologies: All there are, by name.
        wanted: Up to where, by depot and depot partition.
        timeout_seconds: How long to wait for all of it. Topologies that append in a circle may
            never come to an end.
        among: Which of them count; all when None.

    Returns:
        For each that had any of it to read the commit that shows it.

    Raises:
        WaitTimeoutError: When it takes longer.
    """
    until = time.monotonic() + timeout_seconds
    wanted, due, shown = further(wanted, {}), dict.fromkeys(wanted), dict[str, int]()
    while due:
        depot = next(iter(due))
        del due[depot]
        for name, each in sorted(topologies.items()):
            counts = depot in each.depots and (among is None or name in among)
            if not counts or not each.reads(depot, wanted[depot]):
                continue
            left = max(0.0, until - time.monotonic())
            commit, appended = each.passed(depot, wanted[depot], left)
            shown[name] = max(commit, shown.get(name, 0))
            grown = further(wanted, appended)
            due |= {target: None for target in appended if grown[target] != wanted.get(target)}
            wanted = grown
    return shown


def _closed(begin: set[str], following: Mapping[str, set[str]]) -> set[str]:
    """What is reached from some names."""
    found, fresh = set(begin), list(begin)
    while fresh:
        new = following[fresh.pop()] - found
        found |= new
        fresh += new
    return found
