"""The contract of every object store, and what the local one adds: errors that name the file."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

from atoll.errors import NotFoundError, StorageError
from atoll.storage import LocalStore, MemoryStore, ObjectExistsError, ObjectStore


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """A store of each kind."""
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


def test_file_in_the_way(tmp_path: Path) -> None:
    """A file where a folder should be is a StorageError."""
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError):
        LocalStore(tmp_path).create("a/1", b"x")
