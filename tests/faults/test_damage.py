"""Damaged files: whatever happened to a file, what was not written is never served.

Every kind of file of a root is cut at every byte, has every byte flipped, and is emptied, deleted,
zeroed in part and exchanged with its neighbour. The reader must name the file, or, only for the
end of the newest segment that nobody vouches for, give what is left before the tear.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from depot_rows import all_rows
from harness import report
from storage_life import MODULE, PSTATE, TOPOLOGY, Life, rows_of, spec

from atoll.cluster.delivery import Delivery
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.depot import Depot, DepotReader
from atoll.depot.segments.blocks import read_blocks
from atoll.depot.segments.format import SegmentHeader
from atoll.depot.segments.index import SegmentIndex
from atoll.depot.segments.scan import read_header, scan
from atoll.engine.exchange.appended import append_folder, write_durably
from atoll.engine.exchange.staging import read_staged, stage
from atoll.errors import AtollError, DamageError
from atoll.microbatch.commits.history import commit_objects, plan_objects, read_commit
from atoll.microbatch.commits.objects import AppendedRows, Branch, decode_plan
from atoll.microbatch.commits.timelines import create_timeline, read_timelines, timeline_objects
from atoll.placement.deploying import WorkerReport
from atoll.placement.registry import Registry, meet
from atoll.pstate.store.changefile import ChangeFile
from atoll.pstate.store.history import FileRef
from atoll.storage import LocalStore, NumberedObjects
from atoll.views.deployment import Deployment, latest_deployment, save_deployment

SEGMENT_BYTES = 20 * 1024
SCHEMA = spec().schema
_FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


@pytest.fixture(scope="module")
def fast() -> Iterator[Path]:
    """A folder in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=_FAST, prefix="atoll-damage-") as folder:
        yield Path(folder)


@dataclass
class Kind:
    """A file of one kind, and the real code that reads it."""

    path: Path
    read: Callable[[], Any]
    name: str = ""


@pytest.fixture
def kinds(fast: Path) -> dict[str, Kind]:
    """One example of every kind of object and file besides segments."""
    life = Life(Path(tempfile.mkdtemp(dir=fast)) / "objects")
    for append in range(4):
        life.append(append, 8)
        life.microbatch()
    root, store = life.root, life.store
    save_deployment(store, Deployment(MODULE, 1, {}, {}))
    commit = read_commit(store, MODULE, TOPOLOGY, 4)
    part = read_commit(store, MODULE, TOPOLOGY, 3).pstates[PSTATE]
    log, checkpoint = commit.pstates[PSTATE].logs[0][0].file, part.checkpoints[0].file
    staged = stage(store, f"{MODULE}/{TOPOLOGY}/staged/{1:020d}/rows", pa.table({"v": [1, 2, 3]}))
    life.close()
    depot = root / MODULE / "d"
    claims = NumberedObjects(LocalStore(depot), "writers")
    retained = NumberedObjects(LocalStore(depot), "retained")
    retained.create(1, b"")
    commits = commit_objects(store, MODULE, TOPOLOGY)
    plans = plan_objects(store, MODULE, TOPOLOGY)
    epochs = NumberedObjects(store, f"{MODULE}/epochs")
    rows: Callable[[], list[Any]] = lambda: [b.to_pylist() for b in read_staged(store, staged)]  # noqa: E731
    appended, owed = _owed(store)
    back = timeline_objects(store, MODULE, _WENT_BACK)
    create_timeline(store, MODULE, _WENT_BACK, 1, Branch(2, 1, 1, 1, 1))
    revisions = Revisions(store)
    placed = meet(Registry(), MODULE, [WorkerReport("w", "h", 2)])
    assert revisions.stand(Registry(), Revision(placed, MODULE, 1, 1, "deployed"), [MODULE])
    os.utime(root / back.name(1), (1, 1))  # it is known by its time of change, which is coarse
    return {
        "plan": Kind(root / plans.name(4), lambda: decode_plan(plans.read(4))),
        "commit": Kind(root / commits.name(4), lambda: read_commit(store, MODULE, TOPOLOGY, 4)),
        "epoch": Kind(root / epochs.name(1), lambda: msgspec.msgpack.decode(epochs.read(1))),
        "deployment": Kind(
            root / f"{MODULE}/deployments/{1:020d}", lambda: latest_deployment(store, MODULE)
        ),
        "cluster revision": Kind(
            root / revisions.objects.name(1), lambda: Revisions(store).latest()
        ),
        "claim": Kind(depot / claims.name(1), lambda: claims.read(1)),
        "retained marker": Kind(depot / retained.name(1), lambda: retained.read(1)),
        "log": Kind(root / log.name, lambda: _changes(root, log)),
        "checkpoint": Kind(root / checkpoint.name, lambda: _changes(root, checkpoint)),
        "staged rows": Kind(root / staged.name, rows),
        "appended rows": Kind(root / appended, owed),
        "timeline": Kind(
            root / back.name(1), lambda: read_timelines(store, MODULE, _WENT_BACK).branches
        ),
    }


KINDS = [
    *("plan", "commit", "epoch", "deployment", "cluster revision", "claim", "retained marker"),
    *("log", "checkpoint", "staged rows", "appended rows", "timeline"),
]
_WENT_BACK = "back"
"""A topology that went back once; of another name, so that it moves nothing of the others."""
_UNNOTICED_WHEN_GONE = ("deployment", "cluster revision", "timeline")
"""Without its only object a module is not deployed, nor placed, and a topology never went back."""


def _owed(store: LocalStore) -> tuple[str, Callable[[], list[Any]]]:
    """A file of rows that a commit appends to a depot: its name, and the delivery reading it."""
    name = f"{append_folder(MODULE, TOPOLOGY)}/{1:020d}.arrow"
    part = AppendedRows("d", write_durably(store, name, pa.table({"v": [4, 5, 6]})))
    delivery = Delivery(store, {}, MODULE, TOPOLOGY)
    return name, lambda: [each.batch.to_pylist() for each in delivery.records([part])]


def _changes(root: Path, ref: FileRef) -> list[Any]:
    file = ChangeFile(root / ref.name, ref)
    return [file.read(vnode) for vnode in file.vnodes()]


def told(kind: Kind) -> bool:
    """Whether reading says which file is damaged."""
    try:
        kind.read()
    except AtollError as error:
        return kind.path.name in str(error.context.get("file", ""))
    return False


@pytest.mark.parametrize("name", KINDS)
def test_every_byte_and_every_cut(kinds: dict[str, Kind], name: str) -> None:
    """A flip of a bit in any byte, and a cut at any byte, is told with the file's name."""
    kind = kinds[name]
    whole = kind.path.read_bytes()
    before = kind.read()
    began = time.monotonic()
    untold: list[str] = []
    for at in range(len(whole)):
        overwrite(kind.path, at, bytes([whole[at] ^ 1 << at % 8]))
        untold += [] if told(kind) else [f"flip at {at}"]
        overwrite(kind.path, at, whole[at : at + 1])
    for size in reversed(range(len(whole))):
        os.truncate(kind.path, size)
        untold += [] if told(kind) else [f"cut at {size}"]
    kind.path.write_bytes(whole)
    assert kind.read() == before
    assert untold == []
    report(f"damage, {name}", 2 * len(whole), len(untold), began)


def overwrite(path: Path, at: int, data: bytes) -> None:
    """Put bytes into a file, and give it another time of change, as a disk's fault would not."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, data, at)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", KINDS)
def test_emptied_deleted_zeroed_exchanged(kinds: dict[str, Kind], name: str) -> None:
    """A file that is empty, gone, all zeros, longer, or another kind's file is told."""
    kind = kinds[name]
    whole = kind.path.read_bytes()
    others = [other.path.read_bytes() for each, other in kinds.items() if each != name]
    for damaged in (b"", bytes(len(whole)), whole + b"\0", whole + whole, *others):
        kind.path.write_bytes(damaged)
        assert told(kind), damaged[:40]
    kind.path.unlink()
    if name not in _UNNOTICED_WHEN_GONE:
        assert told(kind)
    kind.path.write_bytes(whole)
    kind.read()


def test_objects_under_each_others_names(kinds: dict[str, Kind]) -> None:
    """Two commits, two logs, and two topologies' commits of one id, exchanged: told."""
    life = Life(kinds["epoch"].path.parents[2])
    commits, store = life.commits, life.store
    logs = [read_commit(store, MODULE, TOPOLOGY, n).pstates[PSTATE].logs[0][0].file for n in (3, 4)]
    life.close()
    with exchanged(life.root / commits.name(3), life.root / commits.name(4)):
        for number in (3, 4):
            with pytest.raises(DamageError):
                read_commit(store, MODULE, TOPOLOGY, number)
    with exchanged(*(life.root / log.name for log in logs)):
        for log in logs:
            with pytest.raises(DamageError):
                _changes(life.root, log)
    other = commit_objects(store, MODULE, "other")
    other.create(4, commits.read(4).replace(b"sums", b"toms"))
    with exchanged(life.root / commits.name(4), life.root / other.name(4)):
        with pytest.raises(DamageError):
            read_commit(store, MODULE, TOPOLOGY, 4)
        with pytest.raises(DamageError):
            other.read(4)
    shutil.rmtree((life.root / other.name(4)).parent)


class exchanged:  # noqa: N801  # used like a function
    """Two files under each other's names for a while."""

    def __init__(self, one: Path, other: Path) -> None:
        self.paths = (one, other)

    def __enter__(self) -> None:
        """Exchange them."""
        one, other = self.paths
        aside = one.with_name("aside")
        one.rename(aside)
        other.rename(one)
        aside.rename(other)

    def __exit__(self, *_: object) -> None:
        """Exchange them back."""
        self.__enter__()


# Segments -----------------------------------------------------------------------------------------


@dataclass
class Filled:
    """A depot of one segment of 20 KiB, and where each append ended in it."""

    folder: Path
    path: Path
    ends: list[int]
    rows: list[list[pa.Table]]


@pytest.fixture
def filled(fast: Path) -> Iterator[Filled]:
    """Twenty kilobytes of appends."""
    folder = Path(tempfile.mkdtemp(dir=fast)) / "d"
    depot_spec = spec()
    object.__setattr__(depot_spec, "segment_bytes_max", 1 << 20)
    with Depot(folder, depot_spec) as depot:
        path = next((folder / "segments").iterdir())
        ends, rows = [path.stat().st_size], [all_rows(depot)]
        append = 0
        while path.stat().st_size < SEGMENT_BYTES:
            append += 1
            depot.append(rows_of(append, 30))
            ends.append(path.stat().st_size)
            rows.append(all_rows(depot))
    yield Filled(folder, path, ends, rows)
    shutil.rmtree(folder.parent)


def contents(folder: Path) -> list[Any] | str:
    """Every record; or the file that is told to be damaged."""
    try:
        return all_rows(DepotReader(folder, SCHEMA))
    except DamageError as error:
        return str(error.context["file"])


def scanned(filled: Filled, at: int, following: SegmentHeader | None) -> list[Any] | str:
    """As :func:`contents`, by the same code without listing folders: a tenth of the time.

    Every 64th time by the whole way.
    """
    if at % 64 == 0:
        return contents(filled.folder)
    try:
        index = SegmentIndex(read_header(filled.path))
        scan(filled.path, index, None if following is None else following.previous_length)
        assert following is None or index.ends == following.bases
        refs = [index.blocks(partition, 0, end) for partition, end in enumerate(index.ends)]
        return [
            pa.Table.from_batches(read_blocks(filled.folder, each, SCHEMA), SCHEMA) for each in refs
        ]
    except DamageError as error:
        return str(error.context["file"])


def test_every_byte_of_the_newest_segment(filled: Filled) -> None:
    """Flips and cuts: told, or (the end that nobody vouches for) dropped up to the tear."""
    began = time.monotonic()
    whole = filled.path.read_bytes()
    wrong: list[str] = []
    unvouched = filled.ends[-2]  # the last frame says that all before it is durable
    for at in range(len(whole)):
        overwrite(filled.path, at, bytes([whole[at] ^ 1 << at % 8]))
        right = str(filled.path) if at < unvouched else filled.rows[-2]
        wrong += [] if scanned(filled, at, None) == right else [f"flip at {at}"]
        overwrite(filled.path, at, whole[at : at + 1])
    for size in reversed(range(len(whole))):
        os.truncate(filled.path, size)
        known = [rows for end, rows in zip(filled.ends, filled.rows, strict=True) if end <= size]
        right = known[-1] if known else str(filled.path)
        wrong += [] if scanned(filled, size, None) == right else [f"cut at {size}"]
    report("damage, newest segment", 2 * len(whole), len(wrong), began)
    assert wrong == []


def test_every_byte_of_a_sealed_segment(filled: Filled) -> None:
    """Once a later segment vouches for it, every flip and every cut is told."""
    Depot(filled.folder, spec(), 1).close()
    following = read_header(filled.path.with_name(f"{2:020d}.seg"))
    began = time.monotonic()
    whole = filled.path.read_bytes()
    wrong: list[str] = []
    for at in range(len(whole)):
        overwrite(filled.path, at, bytes([whole[at] ^ 1 << at % 8]))
        wrong += [] if scanned(filled, at, following) == str(filled.path) else [f"flip at {at}"]
        overwrite(filled.path, at, whole[at : at + 1])
    assert contents(filled.folder) == filled.rows[-1]
    for size in reversed(range(len(whole))):
        os.truncate(filled.path, size)
        wrong += [] if scanned(filled, size, following) == str(filled.path) else [f"cut at {size}"]
    report("damage, sealed segment", 2 * len(whole), len(wrong), began)
    assert wrong == []


def test_zeroed_pages_of_a_segment(filled: Filled) -> None:
    """A page of zeros anywhere is told, or drops the end that nobody vouches for."""
    whole = filled.path.read_bytes()
    for at in range(0, len(whole), 4096):
        overwrite(filled.path, at, bytes(min(4096, len(whole) - at)))
        if any(end >= at + 4096 for end in filled.ends[:-1]):  # a whole frame behind it is left
            assert contents(filled.folder) == str(filled.path)
        else:
            before = max(n for n, end in enumerate(filled.ends) if end <= at)
            assert contents(filled.folder) == filled.rows[before]
        overwrite(filled.path, at, whole[at : at + 4096])


def test_segments_missing_emptied_or_old(filled: Filled) -> None:
    """A sealed segment that is gone, empty or an earlier copy of itself is told."""
    Depot(filled.folder, spec(), 1).close()
    whole = filled.path.read_bytes()
    for damaged in (b"", whole[: filled.ends[2]], whole[: filled.ends[0]]):
        filled.path.write_bytes(damaged)
        assert contents(filled.folder) == str(filled.path)
    filled.path.unlink()
    assert contents(filled.folder) == str(filled.path)
