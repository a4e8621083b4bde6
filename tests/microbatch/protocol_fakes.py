"""Parts of a coordinator that a test can hold still: an executor, a depot, a store that refuses."""

from __future__ import annotations

import threading

import msgspec
from memory_store import MemoryStore

from atoll.errors import StorageError
from atoll.microbatch import events as ev
from atoll.microbatch.actions import Actions
from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.objects import GENESIS
from atoll.microbatch.control.options import Options
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest, Outcome


class FakeDepot:
    """One depot partition whose end a test moves."""

    def __init__(self):
        self.end = 0
        self.record_bytes = 1

    def start_offsets(self):
        """Nothing was dropped."""
        return (0,)

    def end_offsets(self):
        """Where the test put it."""
        return (self.end,)

    def sizes(self, partition, start, end, enough):
        """Each record is a run of its own, of as many bytes as a test says."""
        return [(at + 1, self.record_bytes) for at in range(start, end)]


class FakeExecutor:
    """Succeeds with the manifests given; or hangs until it is cancelled."""

    def __init__(self, *, hangs=False, appends=()):
        self.hangs = hangs
        self.appends = list(appends)
        self.running = threading.Event()
        self.cancelled = threading.Event()
        self.runs = []
        self.forgotten = []
        self.ahead = []

    def run(self, plan, epoch, version, placement, timeout_seconds):
        """One manifest with a token that tells the run."""
        self.runs.append((plan.id, epoch, version))
        if self.hangs:
            self.running.set()
            assert self.cancelled.wait(30), "nobody cancelled the attempt"
            raise AttemptError(ActorFailure("E-CANCELLED", "the attempt was cancelled"))
        token = f"{plan.id}-{epoch}-{version}"
        return Outcome([JobOutcome(0, [Manifest(token, 0, appends=self.appends)])])

    def cancel(self):
        """End the run that hangs."""
        self.cancelled.set()

    def prepare(self, placement, commit):
        """Nothing."""

    def tune(self, options):
        """All options are alike here."""

    def read_ahead(self, plan):
        """Remember what was asked."""
        self.ahead.append(plan)

    def end_reading_ahead(self):
        """Nothing reads."""

    def forget(self, microbatch):
        """Remember what was asked."""
        self.forgotten.append(microbatch)


class FaultyStore(MemoryStore):
    """Refuses to create what a test says, before or after the object is there; notes settling."""

    def __init__(self):
        super().__init__()
        self.refuse_before = set()
        self.refuse_after = set()
        self.settled = []

    def create(self, name, data):
        """As in memory, with refusals."""
        folder = name.split("/")[-2]
        if folder in self.refuse_before:
            raise StorageError("the disk refused: no space left on device", file=name)
        super().create(name, data)
        if folder in self.refuse_after:
            self.refuse_after.discard(folder)
            raise StorageError("the disk refused: input/output error", file=name)

    def settle(self, name):
        """Note the name."""
        super().settle(name)
        self.settled.append(name)


def options(**values):
    """Options by their public names, with dots written as underscores."""
    return Options().with_values({name.replace("__", "."): v for name, v in values.items()})


def make_actions(store, epoch, executor, depot, **changes):
    """The actions of topology ``mb`` of module ``m``."""
    parts = {"options": Options(), "now_ms": lambda: 7, "steady_ms": lambda: 7, **changes}
    return Actions("m", "mb", store, epoch, executor, {"d": depot}, **parts)


def fresh_state(epoch, **changes):
    """A topology that has committed nothing and reads depot ``d`` from its beginning."""
    last = msgspec.structs.replace(GENESIS, ranges={"d": [(0, 0)]})
    parts = {"options": Options(), "last": last, **changes}
    return ev.State(epoch.number, vnode_counts={}, checkpoints=Checkpoints({}), **parts)
