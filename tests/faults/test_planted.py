"""The fault suites bite: each of these defects, planted into the real code, is caught by one.

A defect is a small wrong change, of the kind that a hurried person makes. A *hunter* is what a
suite of this folder does, in small; each hunter finds nothing in the sound code.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import test_power_loss
from harness import kept_seeds, seed
from sim_process import simulate
from sim_world import Violation
from storage_life import spec

from atoll.depot.append.claim import WriterClaim
from atoll.depot.depot import Depot
from atoll.depot.producers.table import Admission, Append, Producer
from atoll.depot.reader import DepotReader
from atoll.depot.segments import blocks, segment_file
from atoll.errors import AtollError, FencedError
from atoll.microbatch import coordinator
from atoll.microbatch.actions import Actions
from atoll.microbatch.commits import commit, history
from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.horizon import Heads
from atoll.microbatch.commits.objects import GENESIS, encode
from atoll.microbatch.commits.rollback import Follower
from atoll.microbatch.commits.timelines import create_timeline
from atoll.microbatch.epochs import Epoch
from atoll.microbatch.events import PlanReady
from atoll.pstate.store import changefile, opening
from atoll.pstate.store.transaction import StoreTransaction
from atoll.storage import local, numbered
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError

_SEEDS = 600
_MEMORY = Path("/dev/shm")
_ROW = {"k": "a", "append": 1, "n": 0, "count": 1}
Hunter = Callable[[Path], None]
"""Raises when it caught something."""
Plant = Callable[[pytest.MonkeyPatch], None]


# Hunters ------------------------------------------------------------------------------------------


def by_simulation(folder: Path) -> None:
    """Worlds of several coordinators, one seed after the other, those first that are telling."""
    for number in (*kept_seeds("planted"), *range(seed(), seed() + _SEEDS)):
        simulate(number, folder / "world")


def by_power_loss(folder: Path) -> None:
    """Crash images of a recorded run."""
    images = test_power_loss.record(folder / "run", seed())
    found = test_power_loss.run_images(images, 400, folder, set())
    assert not found, found[0]


def by_damaged_commit(folder: Path) -> None:
    """A flip in any byte of a commit object must be told."""
    objects = NumberedObjects(LocalStore(folder), "commits")
    objects.create(1, encode(GENESIS))
    _flip_and_read(folder / objects.name(1), lambda: objects.read(1))


def by_damaged_log(folder: Path) -> None:
    """A flip in any byte of an incremental log must be told."""
    ref = changefile.write_change_file(
        LocalStore(folder), "log", [(0, [b"a", b"b"], [b"one", None]), (1, [b"c"], [b"three"])]
    )
    _flip_and_read(folder / "log", lambda: _changes(folder / "log", ref))


def by_damaged_depot(folder: Path) -> None:
    """A flip in any byte of acknowledged records must be told."""
    with Depot(folder / "d", spec()) as depot:
        for _ in range(3):
            depot.append([_ROW])
    with Depot(folder / "d", spec()):  # now nothing of the first segment can be a torn end
        segment = min((folder / "d").rglob("*.seg"))
    _flip_and_read(segment, lambda: _all(folder / "d", depot.spec.schema))


def by_two_writers(folder: Path) -> None:
    """The earlier writer of a depot appends after a later one has opened it."""
    with Depot(folder / "d", spec(), epoch=1) as first:
        first.append([_ROW])
        with Depot(folder / "d", spec(), epoch=2) as second:
            with pytest.raises(FencedError):
                first.append([_ROW])
            second.append([_ROW])


def by_repeated_appends(folder: Path) -> None:
    """An append whose answer was lost is sent again, also after a restart."""
    with Depot(folder / "d", spec()) as depot:
        for _ in range(2):
            depot.append([_ROW], producer=Producer("p", 0))
    with Depot(folder / "d", spec()) as depot:
        depot.append([_ROW], producer=Producer("p", 0))
        assert sum(depot.end_offsets()) == 1


def by_refused_writes(folder: Path) -> None:
    """The disk refuses to write a log: the attempt must fail."""
    store = LocalStore(folder)
    (folder / "logs").write_bytes(b"a file where a folder should be")
    with pytest.raises(AtollError):
        changefile.write_change_file(store, "logs/x", [(0, [b"k"], [b"v"])])


# Defects ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Defect:
    """A wrong change and who must catch it."""

    name: str
    plant: Plant
    hunter: Hunter


def _set(target: Any, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(target, name, value)


def _nothing(*_: Any, **__: Any) -> None:
    """Instead of something that matters."""


def _overwriting(store: LocalStore, name: str, data: bytes) -> None:
    path = store.path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _kept_log(store: StoreTransaction, _key: bytes, log: Any) -> None:
    store.entries.put_many(log.keys(), log.olds())


def _written_only(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(descriptor, data)
    os.close(descriptor)


def _own_plan(actions: Actions, command: Any) -> Any:
    """Go on with the plan just made, whatever an earlier attempt read."""
    with contextlib.suppress(ObjectExistsError):
        objects = history.plan_objects(
            actions.store, actions.module, actions.topology, command.plan.timeline
        )
        objects.create(command.plan.id, encode(command.plan))
    return PlanReady(command.plan)


def _own_commit(known: Any) -> Any:
    def create(actions: Actions, command: Any) -> Any:
        event = known(actions, command)
        return type(event)(command.commit)

    return create


def _before_the_commit(known: Any, make: Callable[[Actions, Any], None]) -> Any:
    """Do with what is read ahead what has to wait for the commit."""

    def create(actions: Actions, command: Any) -> Any:
        if command.ahead is not None:
            with contextlib.suppress(ObjectExistsError):
                make(actions, command)
        return known(actions, command)

    return create


def _next_plan(actions: Actions, command: Any) -> None:
    names = (actions.module, actions.topology, command.ahead.timeline)
    history.plan_objects(actions.store, *names).create(command.ahead.id, encode(command.ahead))


def _next_commit(actions: Actions, command: Any) -> None:
    names = (actions.module, actions.topology, command.ahead.timeline)
    after = msgspec.structs.replace(
        command.commit, id=command.ahead.id, ranges=command.ahead.ranges
    )
    history.commit_objects(actions.store, *names).create(after.id, encode(after))


def _first_manifests(known: Any) -> Any:
    def build(state: Any, outcome: Any, *others: Any) -> Any:
        jobs = [type(job)(job.index, job.manifests[:1]) for job in outcome.jobs]
        return known(state, type(outcome)(jobs), *others)

    return build


def _unchecked_bytes(path: Path, ref: Any) -> bytes:
    return path.read_bytes()


def _unchecked_blocks(patch: pytest.MonkeyPatch) -> None:
    class Blind:
        crc32 = staticmethod(lambda data, _value=0: 7)

    patch.setattr(blocks, "zlib", Blind)


def _unclosed(follower: Follower, _last: Any, branch: Any) -> bool:
    with contextlib.suppress(ObjectExistsError):
        create_timeline(
            follower.store, follower.module, follower.topology, follower.timeline + 1, branch
        )
    return True


def _owing_nothing(state: Any, event: Any) -> Any:
    return coordinator._begun(coordinator.replace(state, plan=event.plan))


def _floor_too_high(known: Any) -> Any:
    def floor(checkpoints: Any, touched: Any, horizon: int) -> int:
        return min(horizon, known(checkpoints, touched, horizon)) + 2

    return floor


def _by_count(commit_id: int, last: Any, *_: Any) -> int:
    return max(last.readable_from, commit_id - 2)


def _swallowing(store: LocalStore, name: str, data: bytes) -> None:
    with contextlib.suppress(OSError):
        store.path(name).parent.mkdir(parents=True, exist_ok=True)
        store.path(name).write_bytes(data)


PLANTED: dict[Hunter, dict[str, Plant]] = {
    by_power_loss: {
        "a depot acknowledges before the fsync": _set(segment_file.SegmentFile, "sync", _nothing),
        "folders are not fsynced": _set(local, "fsync_folder", _nothing),
        "objects are not fsynced": _set(local, "_write_durably", _written_only),
    },
    by_simulation: {
        "a commit replaces the one that is there": _set(LocalStore, "create", _overwriting),
        "every attempt makes a plan of its own": _set(Actions, "_create_plan", _own_plan),
        "a commit found is taken for one's own": _set(
            Actions, "_create_commit", _own_commit(Actions._create_commit)
        ),
        "what is read ahead is planned before the commit": _set(
            Actions, "_create_commit", _before_the_commit(Actions._create_commit, _next_plan)
        ),
        "what is read ahead is committed first": _set(
            Actions, "_create_commit", _before_the_commit(Actions._create_commit, _next_commit)
        ),
        "the commit is built before the last manifest": _set(
            coordinator, "build_commit", _first_manifests(coordinator.build_commit)
        ),
        "nothing is undone": _set(StoreTransaction, "undo", _nothing),
        "the reverse log is not cleared": _set(StoreTransaction, "_take_back", _kept_log),
        "pending work passes for committed": _set(
            opening.VnodeHistory, "is_committed", lambda *_: True
        ),
        "the log is dropped too early": _set(
            Checkpoints, "floor", _floor_too_high(Checkpoints.floor)
        ),
        "a commit is given up before its time": _set(commit, "horizon_of", _by_count),
        "the times of abandoned commits count": _set(Heads, "upto", lambda heads, _: heads),
        "a reader who stays misses what was dropped": _set(
            history.CommitHistory, "_is_dropped", lambda *_: False
        ),
        "owed deliveries are forgotten by a new life": _set(coordinator, "_begin", _owing_nothing),
        "a rollback does not close its timeline": _set(Follower, "_close", _unclosed),
        "the epoch is never looked at": _set(Epoch, "check", _nothing),
    },
    by_damaged_log: {
        "logs are read without their checksum": _set(
            changefile, "_checked_bytes", _unchecked_bytes
        ),
    },
    by_damaged_commit: {
        "objects are read without their checksum": _set(numbered, "_checksum", lambda *_: 0),
    },
    by_damaged_depot: {
        "depot blocks are read without their checksum": _unchecked_blocks,
    },
    by_two_writers: {
        "a depot's writer does not look whether it was fenced": _set(
            WriterClaim, "check", _nothing
        ),
    },
    by_repeated_appends: {
        "a producer's appends are not told apart": _set(Admission, "admit", lambda *_: Append()),
    },
    by_refused_writes: {
        "a write error is swallowed": _set(LocalStore, "write", _swallowing),
    },
}
DEFECTS = [
    Defect(name, plant, hunter)
    for hunter, plants in PLANTED.items()
    for name, plant in plants.items()
]


SOUND = [
    *(by_damaged_commit, by_damaged_log, by_damaged_depot),
    *(by_two_writers, by_repeated_appends, by_refused_writes),
]


@pytest.fixture
def folder():
    """In memory where there is such a file system."""
    base = str(_MEMORY) if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=base, prefix="atoll-planted-") as name:
        yield Path(name)


pytestmark = pytest.mark.usefixtures("small_streams")


@pytest.mark.parametrize("hunter", SOUND)
def test_a_hunter_finds_nothing_in_sound_code(hunter, folder):
    """Otherwise it would prove nothing; the other two hunters are suites of their own."""
    hunter(folder)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.name.replace(" ", "-"))
def test_a_planted_defect_is_caught(defect, folder, monkeypatch):
    """What catches it may be a violated invariant, an assertion or any error that escapes."""
    defect.plant(monkeypatch)
    with pytest.raises((Violation, Exception, pytest.fail.Exception)) as caught:
        defect.hunter(folder)
    print(f"\nplanted: {defect.name}: {defect.hunter.__name__}: {str(caught.value)[:120]}")


def _flip_and_read(path: Path, read: Callable[[], Any]) -> None:
    before = read()
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 400)):
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with contextlib.suppress(AtollError):
            assert read() == before, f"a flip at {at} of {path.name} was served"
    path.write_bytes(whole)


def _changes(path: Path, ref: Any) -> Any:
    file = changefile.ChangeFile(path, ref)
    return [file.read(vnode) for vnode in file.vnodes()]


def _all(folder: Path, schema: Any) -> Any:
    reader = DepotReader(folder, schema)
    ends = reader.end_offsets()
    return [reader.read(partition, 0, end).to_pylist() for partition, end in enumerate(ends)]
