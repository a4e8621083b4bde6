"""The contract of every object store, and what the local one adds: errors that name the file."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pytest
from memory_store import MemoryStore

from atoll.errors import NotFoundError, StorageError
from atoll.storage import LocalStore, ObjectExistsError, ObjectStore
from atoll.storage.roots import open_store


@pytest.fixture(params=["local", "memory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """A store of each kind."""
    if request.param == "bucket":
        pytest.importorskip("obstore")
        return open_store(f"memory://{tmp_path.name}/root")
    return LocalStore(tmp_path / "root") if request.param == "local" else MemoryStore()


def test_create_once(store: ObjectStore) -> None:
    """The first creator wins and its bytes stay."""
    store.create("plans/1", b"first")
    with pytest.raises(ObjectExistsError):
        store.create("plans/1", b"second")
    assert store.read("plans/1") == b"first"
    assert store.exists("plans/1")


def test_missing(store: ObjectStore) -> None:
    """A missing object is said to be missing, and deleting it is fine."""
    assert not store.exists("a/b")
    with pytest.raises(NotFoundError):
        store.read("a/b")
    store.delete("a/b")
    assert store.list("a") == []


def test_below_an_object(store: ObjectStore) -> None:
    """A name below an object's name is missing, not an I/O error."""
    store.create("a", b"")
    with pytest.raises(NotFoundError):
        store.read("a/b")
    store.delete("a/b")


def test_list_is_sorted_and_deep(store: ObjectStore) -> None:
    """Listing a folder names everything below it, in order, and nothing beside it."""
    for name in ["logs/10", "logs/9", "logs/deep/1", "logs2/1", "top"]:
        store.write(name, name.encode())
    assert store.list("logs") == ["logs/10", "logs/9", "logs/deep/1"]
    assert store.list("logs/") == store.list("logs")
    assert store.list("") == ["logs/10", "logs/9", "logs/deep/1", "logs2/1", "top"]
    store.delete("logs/9")
    assert store.list("logs") == ["logs/10", "logs/deep/1"]


@pytest.mark.parametrize("name", ["", "/a", "a//b", "../a", "a/../b", "a/.", "a\0b", "a\\b"])
def test_improper_names(store: ObjectStore, name: str) -> None:
    """A name cannot lead out of the store."""
    for call in (store.read, store.exists, store.delete):
        with pytest.raises(StorageError):
            call(name)
    with pytest.raises(StorageError):
        store.create(name, b"")


def test_one_of_many_creators_wins(store: ObjectStore) -> None:
    """Of sixteen threads that create one name, exactly one succeeds, and its bytes are there."""
    winners: list[int] = []
    start = threading.Barrier(16)

    def compete(number: int) -> None:
        start.wait()
        try:
            store.create("epochs/1", str(number).encode())
        except ObjectExistsError:
            return
        winners.append(number)

    threads = [threading.Thread(target=compete, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.read("epochs/1")] == [str(number).encode() for number in winners]


def test_pickle(store: ObjectStore) -> None:
    """A pickled store reads what was there."""
    store.create("a", b"1")
    assert pickle.loads(pickle.dumps(store)).read("a") == b"1"


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    """No creation leaves its temporary file; one that a crash left is hidden."""
    store = LocalStore(tmp_path)
    store.create("a/1", b"x")
    with pytest.raises(ObjectExistsError):
        store.create("a/1", b"y")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["1"]
    (tmp_path / "a" / ".tmp-dead").write_bytes(b"half")
    assert store.list("a") == ["a/1"]


def test_disk_errors_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed fsync is a StorageError with the file's name, and nothing is created."""
    store = LocalStore(tmp_path)

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(StorageError, match="No space") as caught:
        store.create("1", b"x")
    assert caught.value.context["file"] == str(tmp_path / "1")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_say_whether_an_object_exists_raises(tmp_path, monkeypatch):
    """Taken for absent, a rollback of another coordinator would be passed over."""
    store = LocalStore(tmp_path)
    store.create("a", b"x")

    def refuse(path: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("os.stat", refuse)
        with pytest.raises(StorageError, match="Input/output"):
            store.exists("a")
    assert store.exists("a")
    assert not store.exists("a/b")
    assert not store.exists("b")


def test_file_in_the_way(tmp_path: Path) -> None:
    """A file where a folder should be is a StorageError."""
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError):
        LocalStore(tmp_path).create("a/1", b"x")


def test_what_a_killed_creator_left_is_swept(tmp_path: Path) -> None:
    """Only unfinished files, only below the folder named; objects stay."""
    store = LocalStore(tmp_path)
    store.create("module/plans/1", b"one")
    for folder in ("module/plans", "module", "other"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / ".tmp-0123456789abcdef").write_bytes(b"half")
    assert store.sweep("module") == 2
    assert store.sweep("missing") == 0
    assert store.read("module/plans/1") == b"one"
    assert [path.parent.name for path in tmp_path.rglob(".tmp-*")] == ["other"]


def test_a_creator_whose_unfinished_file_was_swept_writes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep by another life takes no object from anybody."""
    store = LocalStore(tmp_path)
    link, sweeps = os.link, []

    def swept_before(source: Path, target: Path) -> None:
        if len(sweeps) < 2:
            sweeps.append(store.sweep("plans"))
        link(source, target)

    monkeypatch.setattr(os, "link", swept_before)
    store.create("plans/1", b"one")
    assert sweeps == [1, 1]
    assert store.read("plans/1") == b"one"
    assert not list(tmp_path.rglob(".tmp-*"))


def test_settling_makes_durable_what_somebody_else_left(tmp_path, monkeypatch):
    """The object and the folders above it are fsynced, each on a fresh descriptor."""
    store = LocalStore(tmp_path / "root")
    store.create("m/mb/commits/1", b"data")
    synced = []
    original = os.fsync

    def fsync(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store.settle("m/mb/commits/1")
    root = tmp_path.resolve() / "root"
    folders = [root / "m/mb/commits", root / "m/mb", root / "m", root]
    assert synced == [root / "m/mb/commits/1", *folders]


@pytest.mark.parametrize("name", ["m/2", "n/1"])
def test_settling_what_is_not_there(tmp_path, name):
    """There is nothing to go on from."""
    for store in (LocalStore(tmp_path), MemoryStore()):
        store.create("m/1", b"data")
        store.settle("m/1")
        with pytest.raises(NotFoundError):
            store.settle(name)
