"""The interposer itself: it sees every change below its root, and disturbs the one call asked."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from images import Images
from interpose import Call, Interposer

from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotSpec, HashBy
from atoll.engine.exchange.staging import stage
from atoll.errors import StorageError
from atoll.storage import LocalStore, NumberedObjects


def tree(root: Path) -> dict[str, bytes | None]:
    """Every file and folder below the root, without the local folder."""
    found = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] != "local":
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def storage_work(root: Path) -> None:
    """Everything that storage code does with files."""
    spec = DepotSpec("d", parse_ddl("k string, v long"), 2, HashBy("k"))
    object.__setattr__(spec, "segment_bytes_max", 6000)  # less than may be declared
    rows = [{"k": f"k{n}", "v": n} for n in range(20)]
    with Depot(root / "m" / "d", spec) as depot:
        appenders = [threading.Thread(target=depot.append, args=(rows,)) for _ in range(4)]
        for thread in appenders:
            thread.start()
        for thread in appenders:
            thread.join()
        depot.append_stream([depot.codec.from_rows(rows)])
    Depot(root / "m" / "d", spec, 1).close()
    objects = NumberedObjects(LocalStore(root), "m/t/commits")
    for number in range(1, 6):
        objects.create(number, b"payload" * number)
    objects.delete_below(3)
    objects.store.write("m/t/logs/a", b"log")
    stage(LocalStore(root), "m/t/staged/1/rows", pa.table({"v": [1, 2]}))
    stage(LocalStore(root), "m/t/staged/2/rows", pa.table({"v": [3]}))
    shutil.rmtree(root / "m" / "t" / "staged" / "1")
    with (root / "text").open("w") as file:
        file.write("äöü\nline")
    with open(root / "text", "a") as file:  # noqa: PTH123  # the other way to open
        file.write("more")
    with io.open(root / "text", "r+b") as file:  # noqa: UP020
        file.seek(2)
        file.write(b"XX")
        file.truncate(8)
    (root / "text").rename(root / "renamed")
    os.truncate(root / "renamed", 5)
    (root / "local").mkdir()
    (root / "local" / "unseen").write_bytes(b"1")


def test_sees_every_change(tmp_path: Path) -> None:
    """The recorded calls, replayed, give exactly the files that the process left."""
    root = tmp_path / "root"
    root.mkdir()
    with Interposer(root) as disk:
        disk.record()
        storage_work(root)
        calls = disk.calls
    image = Images(disk.trace).whole()
    found = tree(root)
    assert {name: data for name, data in found.items() if data is not None} == image.files
    assert {name for name, data in found.items() if data is None} == set(image.folders)
    kinds = {call.kind for call in disk.operations()}
    wanted = {"open", "write", "writev", "pwrite", "fsync", "fdatasync", "link", "unlink", "mkdir"}
    assert kinds >= {*wanted, "rmdir", "rename", "truncate", "ftruncate"}
    assert calls == len([each for each in disk.trace if isinstance(each, Call)])
    assert len({call.thread for call in disk.operations()}) > 1
    (root / "after").write_bytes(b"")
    assert disk.calls == calls, "nothing is seen after the context"


def test_fails_once_and_for_as_long_as_told(tmp_path: Path) -> None:
    """One refusal, then refusals until cleared; a refused call changes nothing."""
    store = LocalStore(tmp_path)
    with Interposer(tmp_path) as disk:
        disk.fail_at(2, errno.ENOSPC)
        with pytest.raises(StorageError) as told:
            store.write("a", b"data")
        assert told.value.context["errno"] == errno.ENOSPC
        store.write("b", b"data")
        disk.fail_at(disk.calls + 1, errno.EIO, None)
        for _ in range(3):
            with pytest.raises(StorageError):
                store.write("c", b"data")
        disk.clear()
        store.write("c", b"data")
        assert disk.faults >= 4
    assert store.read("b") == store.read("c") == b"data"


def test_kills_before_the_call(tmp_path: Path) -> None:
    """The process dies by SIGKILL exactly before the call of the number given."""
    for number in range(1, 8):
        root = tmp_path / str(number)
        root.mkdir()
        child = os.fork()
        if child == 0:
            with Interposer(root) as disk:
                disk.kill_at(number)
                LocalStore(root).create("a", b"data")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL or number > 6
        files = {path.name for path in root.iterdir()}
        assert ("a" in files) == (number > 4)  # open, write, fsync, link, unlink, fsync


def test_lying_fsync(tmp_path: Path) -> None:
    """A lie is success without effect: the recorded trace makes nothing durable."""
    with Interposer(tmp_path) as disk:
        disk.record()
        disk.lying = True
        LocalStore(tmp_path).create("a", b"data")
    durable, pending = Images(disk.trace).at(len(disk.trace))
    assert not durable
    assert len(pending) == 4
