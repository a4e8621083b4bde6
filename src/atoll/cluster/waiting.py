"""Waits until what was appended to depots is processed, and readers see what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from atoll.depot.receipt import Awaited, Receipt
from atoll.errors import ReceiptError, UsageError, WaitTimeoutError
from atoll.microbatch.plans.planning import padded
from atoll.views.awaiting import wanted_of
from atoll.views.names import not_found
from atoll.views.passing import Chains, wait_passed

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.depot.mirror import MirrorDepot
    from atoll.microbatch.commits.objects import Reach
    from atoll.microbatch.stepping import Stepper


class Waiting:
    """Follows what is appended through the topologies of one module. Safe from any thread.

    Args:
        module: The module's name.
        loops: Its topologies; more may come.
        depots: Its depots.
        mirrors: The depots of other modules that it reads, by ``module.depot``.
    """

    def __init__(
        self,
        module: str,
        loops: Mapping[str, Stepper],
        depots: Mapping[str, Depot],
        mirrors: Mapping[str, MirrorDepot],
    ) -> None:
        self._module = module
        self._loops = loops
        self._depots = depots
        self._mirrors = mirrors
        self.chains = Chains()

    def wait(
        self,
        receipts: Sequence[Receipt | Awaited | str],
        timeout_seconds: float,
        topology: str | None = None,
    ) -> dict[str, int]:
        """For each topology that read them, or what came of them, the commit that shows it.

        Args:
            receipts: What to wait for.
            timeout_seconds: How long to wait for all of it.
            topology: Wait for this one, and those on the way to it; for all when None.

        Raises:
            ReceiptError: When there is no receipt, one is of something else, or the topology never
                sees its records.
        """
        wanted = wanted_of(receipts, self._checked)
        among = None if topology is None else self._on_the_way(wanted, topology)
        passing = {name: _Running(loop) for name, loop in self._loops.items()}
        return wait_passed(passing, wanted, timeout_seconds, among)

    def wait_idle(self, timeout_seconds: float) -> None:
        """Return when at one moment no topology had anything to do."""
        until = time.monotonic() + timeout_seconds
        loops = list(self._loops.values())
        while True:
            for loop in loops:
                wait_fresh(loop, max(0.0, until - time.monotonic()))
                loop.wait_resting(loop.actions.now_ms, max(0.0, until - time.monotonic()))
            before = [loop.published for loop in loops]
            idle = all(loop.rests(loop.actions.now_ms()) and _caught_up(loop) for loop in loops)
            if idle and all(
                loop.published is known for loop, known in zip(loops, before, strict=True)
            ):
                return
            if time.monotonic() > until:
                raise WaitTimeoutError(
                    f"module {self._module!r} was never idle in {timeout_seconds:g} s",
                    hint="records keep coming, or a topology appends to its own source: wait for "
                    "a receipt instead",
                )

    def _checked(self, each: Awaited) -> str:
        """The name under which the module knows the depot.

        Raises:
            ReceiptError: When the depot does not hold such records.
        """
        own = each.module in {"", self._module}
        name = each.depot if own else f"{each.module}.{each.depot}"
        found: Depot | MirrorDepot | None = (self._depots if own else self._mirrors).get(name)
        if found is None and own:
            raise not_found("depot", each.depot, self._depots, self._module)
        if found is None:
            raise ReceiptError(
                f"the receipt is of depot {each.depot!r} of module {each.module!r}, which module "
                f"{self._module!r} does not read",
                hint=f"wait in module {each.module!r}, or in one that mirrors the depot",
            )
        held = found.end_offsets()
        for part, end in each.ends.items():
            if part >= len(held) or end > held[part]:
                raise ReceiptError(
                    f"depot {each.depot!r} does not hold the records of the receipt",
                    hint="it is a receipt of another root, or the depot has lost records",
                    depot_partition=part,
                    record_offset=end,
                )
        return name

    def _on_the_way(self, wanted: Reach, topology: str) -> frozenset[str]:
        readers = {name: tuple(loop.depots) for name, loop in self._loops.items()}
        among = self.chains.leading_to(topology, wanted, readers)
        running = _Running(self._loops[topology])
        for depot in wanted:
            if depot in running.depots and not running.reads(depot, wanted[depot]):
                raise ReceiptError(
                    f"topology {topology!r} began to read depot {depot!r} behind the records of "
                    "the receipt",
                    hint="give source(...) another start_from before it is first deployed",
                )
        return among


class _Running:
    """A topology of this process, as those who wait see it."""

    def __init__(self, loop: Stepper) -> None:
        self._loop = loop
        self.depots = tuple(loop.depots)

    def reads(self, depot: str, ends: Mapping[int, int]) -> bool:
        began = self._loop.actions.starts.get(depot, [])
        return any(end > at for end, at in _positions(ends, began))

    def passed(self, depot: str, ends: Mapping[int, int], left: float) -> tuple[int, Reach]:
        done = self._loop.published.ends().get(depot, [])
        kept = dict(enumerate(self._loop.depots[depot].start_offsets()))
        for part, (end, at) in zip(ends, _positions(ends, done), strict=True):
            if at < end and at < kept.get(part, 0):
                raise ReceiptError(
                    f"records of depot {depot!r} that topology {self._loop.topology!r} has not "
                    "read are trimmed",
                    hint="it goes on behind them; keep more by the depot's retention",
                    depot_partition=part,
                    record_offset=at,
                )
        return self._loop.wait_passed({depot: ends}, left)


def _positions(ends: Mapping[int, int], at: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each end beside the position in its depot partition; 0 where nothing was read."""
    for part, end in ends.items():
        yield end, at[part] if part < len(at) else 0


def _caught_up(loop: Stepper) -> bool:
    done = loop.published.ends()
    return all(
        list(ends) == padded(done.get(name, []), len(ends))
        for name, each in loop.depots.items()
        for ends in [each.end_offsets()]
    )


def wait_committed(
    loops: Mapping[str, Stepper],
    depot: str,
    now: Sequence[int],
    ends: Mapping[int, int] | None,
    timeout_seconds: float,
) -> dict[str, int]:
    """For each topology that reads the depot the microbatch that readers see when it is done.

    Args:
        loops: The topologies, by name.
        depot: The depot.
        now: Its end offsets.
        ends: By depot partition the offset to wait for; those of now when None.
        timeout_seconds: How long to wait for all of them.

    Raises:
        UsageError: When the depot has no such depot partition.
        WaitTimeoutError: When it takes longer.
    """
    wanted = dict(enumerate(now)) if ends is None else dict(ends)
    unknown = sorted(each for each in wanted if not 0 <= each < len(now))
    if unknown:
        raise UsageError(
            f"depot {depot!r} has depot partitions 0 to {len(now) - 1}, not {unknown[0]}",
            hint="give the offsets that the append answered with",
        )
    until = time.monotonic() + timeout_seconds
    return {
        name: loop.wait_reached({depot: wanted}, max(0.0, until - time.monotonic())).id
        for name, loop in sorted(loops.items())
        if depot in loop.depots
    }


def wait_fresh(loop: Stepper, timeout_seconds: float) -> int:
    """The microbatch that shows all that the depots of a topology hold when this is called.

    Raises:
        WaitTimeoutError: When it takes longer.
    """
    ends = {name: dict(enumerate(each.end_offsets())) for name, each in loop.depots.items()}
    return loop.wait_reached(ends, timeout_seconds).id
