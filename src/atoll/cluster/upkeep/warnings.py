"""Notices what is wrong with a module that runs all the same, and says it once.

Files that recovery needs and that are gone, and a clock that is behind what it showed before: both
cost nothing while everything goes on, and much later. What is found is in the status for as long
as it is so; the log says when it begins and when it is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from atoll.logs import get_logger
from atoll.microbatch.commits.recovery import RecoveryCheck, vnodes_of
from atoll.microbatch.control.warnings import (
    CLOCK_BEHIND,
    clock_warning,
    lost_depot_warning,
    lost_files_warning,
)
from atoll.microbatch.outcome import ActorFailure
from atoll.storage.roots import RootStore
from atoll.topology.times import PROCESSING

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.microbatch.stepping import Stepper


_log = get_logger("atoll.cluster")

_LOOK_SECONDS = 1.0


class ModuleWarnings:
    """Watches the topologies of one module.

    Args:
        module: The module's name.
        store: The root.
        loops: Its topologies, by name.
        depots: Its depots, by name.
        now_ms: The clock.
    """

    def __init__(
        self,
        module: str,
        store: RootStore,
        loops: Mapping[str, Stepper],
        depots: Mapping[str, Depot],
        now_ms: Callable[[], int],
    ) -> None:
        """Nothing is watched before :meth:`start`."""
        self._module = module
        self._store = store
        self._loops = loops
        self._depots = depots
        self._now_ms = now_ms
        self._checks: dict[str, RecoveryCheck] = {}
        self._segments: dict[str, list[str]] = {}
        self._due: dict[str, float] = {}
        self._told: dict[tuple[str, str, str], str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="atoll-warnings", daemon=True)

    def start(self) -> None:
        """Begin; call once."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._stopping.set()

    def of(self, topology: str) -> list[ActorFailure]:
        """What is wrong with a topology, as of the last look; the clock as of now."""
        loop = self._loops[topology]
        lost = self._checks[topology].lost if topology in self._checks else ()
        found = [
            loop.status.hangs,
            lost_files_warning(self._module, topology, lost),
            *(lost_depot_warning(name, self._segments.get(name, ())) for name in loop.depots),
            clock_warning(loop.published.clocks.now_ms, self._now_ms(), self._waiting(loop)),
        ]
        return [each for each in found if each is not None]

    def check(self, topology: str) -> dict[str, list[int]]:
        """Look at all files of a topology now; by PState the vnodes that cannot be rebuilt."""
        lost = vnodes_of(self._check(topology).look(None))
        self._tell(topology)
        return lost

    def look(self, now_seconds: float) -> None:
        """Look at what is due, and tell what is new.

        Args:
            now_seconds: On a clock that never goes back.
        """
        for topology, loop in self._loops.items():
            options = loop.status.state.options
            since = self._due.setdefault(topology, now_seconds)
            if now_seconds - since >= options.recovery_check_seconds:
                self._due[topology] = now_seconds
                self._check(topology).look()
                self._look_at_depots(loop)
            self._tell(topology)

    def _look_at_depots(self, loop: Stepper) -> None:
        for name in loop.depots:
            if name in self._depots:
                self._segments[name] = self._depots[name].lost_segments()

    def _check(self, topology: str) -> RecoveryCheck:
        if topology not in self._checks:
            loop = self._loops[topology]
            self._checks[topology] = RecoveryCheck(
                self._store, self._module, topology, lambda: loop.published
            )
        return self._checks[topology]

    def _waiting(self, loop: Stepper) -> list[str]:
        """What goes by processing time, in words."""
        state = loop.status.state
        timed = [name for name, clock in state.clocks.items() if clock == PROCESSING]
        aged = [
            name
            for name in loop.depots
            if name in self._depots
            and self._depots[name].spec.retention.age_seconds_max is not None
        ]
        return [
            *(f"tick {name!r}" for name in state.ticks),
            *(["timers and windows by processing time"] if timed else []),
            *(f"the retention by age of depot {name!r}" for name in aged),
        ]

    def _tell(self, topology: str) -> None:
        found = {
            (topology, each.code, each.context.get("depot", "")): each for each in self.of(topology)
        }
        for key, each in found.items():
            # how long a clock will be behind changes all the time; it is told once
            said = "" if each.code == CLOCK_BEHIND else each.message
            if self._told.get(key) != said:
                self._told[key] = said
                log = _log.warning if each.code == CLOCK_BEHIND else _log.error
                fields = {"code": each.code, "topology": topology, "to_do": each.hint}
                log(each.message, **fields, **each.context)
        for key in [key for key in list(self._told) if key[0] == topology and key not in found]:
            if self._told.pop(key, None) is not None:  # another thread may have told it just now
                _log.warning("is over", code=key[1], topology=topology)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self.look(time.monotonic())
            except Exception as error:  # noqa: BLE001 - the next look tries again
                _log.warning("looking for what is wrong failed", error=str(error))
