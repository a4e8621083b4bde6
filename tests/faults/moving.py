"""A life of the scenario that is rescheduled all the time, until it is killed or has finished.

Beside the scenario's own thread, which appends and processes, another one asks for random
reschedules: several fragments at once, out, in and sideways, over 1 to 16 parallel units. Workers
join and are lost as well. Everything here runs in children.
"""

from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

from interpose import Interposer
from reading import let_read
from scenario import build, drive, say, state_of, tuned

from atoll import LocalCluster
from atoll.errors import RescheduleError, UsageError
from atoll.microbatch.events import Step
from atoll.placement.reschedule.change import UnitChange

__all__ = ["live_moving"]

UNITS = 12
"""Of the worker that stays; the one that comes and goes has four more."""


def live_moving(
    root: str, rounds: int, seed: int, moves: int, number: int = 0, reads: str = ""
) -> None:
    """Live while so many reschedules are made, or until the storage layer's n-th call.

    Says ``moved`` with the revision after every change that stands. With a reader's file every
    attempt of the bank waits until it was read meanwhile, so that each commit is seen.
    """

    def observe(step: Step, _microbatch: int) -> None:
        bank = threading.current_thread().name.endswith("-bank")
        if reads and bank and step == Step.PROCESS:
            let_read(reads)

    with contextlib.ExitStack() as stack:
        calls = stack.enter_context(Interposer(root))
        if number:
            calls.on_call = lambda call: call.number == number and say("dying", [call.kind])
            calls.kill_at(number)
        stack.enter_context(tuned())
        cluster = stack.enter_context(
            LocalCluster(root, engine="inline", parallelism=UNITS, observer=observe)
        )
        app = cluster.deploy(build())
        mover = _Mover(cluster, app, random.Random(seed), moves)
        mover.start()
        drive(app, rounds)
        mover.join()
        if mover.error is not None:
            raise mover.error
        say("calls", calls.calls)
        say("final", state_of(app))


class _Mover(threading.Thread):
    """Asks for one reschedule after the other."""

    def __init__(self, cluster: LocalCluster, app: Any, rng: random.Random, moves: int) -> None:
        super().__init__(name="mover", daemon=True)
        self.cluster = cluster
        self.app = app
        self.rng = rng
        self.moves = moves
        self.error: BaseException | None = None

    def run(self) -> None:
        """As many as were asked for."""
        try:
            made = 0
            while made < self.moves:
                made += self._move()
        except BaseException as error:  # noqa: BLE001  # told by the thread that waits
            self.error = error

    def _move(self) -> bool:
        before = self.app.cluster.info().revision
        choice = self.rng.random()
        if choice < 0.1:
            self.cluster.add_worker("guest", 4)
        elif choice < 0.2 and len(self.app.cluster.info().workers) > 1:
            with contextlib.suppress(UsageError, KeyError):
                self._lose_guest()
        elif choice < 0.3:
            policy = self.rng.choice(["adaptive", "3", "bounded(5)", "ratio(0.5)", "16"])
            self.app.cluster.set_parallelism(self.rng.choice(self.app.topologies()), policy)
        else:
            self._reschedule()
        after = self.app.cluster.info().revision
        if after > before:
            say("moved", after)
        return after > before

    def _lose_guest(self) -> None:
        if "guest" in self.cluster._workers:
            self.cluster.lose_worker("guest")

    def _reschedule(self) -> None:
        info = self.app.cluster.info()
        live = info.live_units()
        changes = {}
        for root in self.rng.sample(info.roots(), self.rng.randint(1, len(info.roots()))):
            most = 1 if root.kind == "singleton" else min(len(live), 16)
            wanted = set(self.rng.sample(live, self.rng.randint(1, most)))
            added, removed = wanted - set(root.units), set(root.units) - wanted
            if root.kind != "singleton" or added:
                changes[root.id] = UnitChange(tuple(added), tuple(removed))
        with contextlib.suppress(RescheduleError):  # a policy's change came first
            self.app.cluster.reschedule(changes, revision=info.revision)
