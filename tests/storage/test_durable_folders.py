"""Folders are durable before anything in them counts, whoever made them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from images import Images
from interpose import Interposer

from atoll.errors import StorageError
from atoll.storage import LocalStore


def test_folder_that_somebody_else_made(tmp_path: Path) -> None:
    """A folder made by a process that died before its fsync is fsynced before it is used."""
    with Interposer(tmp_path) as disk:
        disk.record()
        (tmp_path / "folder").mkdir()
        LocalStore(tmp_path).create("folder/a", b"data")
        LocalStore(tmp_path).create("folder/b", b"data")
    durable, _ = Images(disk.trace).at(len(disk.trace))
    assert {step.name for step in durable} >= {"folder", "a", "b"}
    synced = [call.path for call in disk.operations() if call.kind == "fsync"]
    assert synced.count(".") == 1, "once per process is enough"


def test_folder_whose_fsync_failed(tmp_path: Path) -> None:
    """After a failed fsync the folder is there, but is not taken for durable."""
    store = LocalStore(tmp_path)
    with Interposer(tmp_path) as disk:
        disk.record()
        disk.fail_at(1, errno.EIO, kinds=("fsync",))
        with pytest.raises(StorageError):
            store.create("folder/a", b"data")
        assert disk.faults == 1
        store.create("folder/a", b"data")
        assert not disk.reused, "a descriptor whose fsync failed was fsynced again"
    durable, _ = Images(disk.trace).at(len(disk.trace))
    assert {step.name for step in durable} >= {"folder", "a"}


def test_a_refused_write_leaves_nothing(tmp_path: Path) -> None:
    """A write that fails gives its space back."""
    store = LocalStore(tmp_path)
    with Interposer(tmp_path) as disk:
        for kind in ("write", "fsync"):
            for method in (store.write, store.create):
                disk.fail_at(disk.calls + 1, errno.ENOSPC, kinds=(kind,))
                with pytest.raises(StorageError):
                    method(f"{kind}-{method.__name__}", b"data")
                assert not list(tmp_path.iterdir())
    assert disk.faults == 4
