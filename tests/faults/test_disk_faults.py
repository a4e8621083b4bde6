"""A disk that refuses: full, broken, once or for a while, at every call that the storage makes.

The storage layer's miniature (``storage_life.py``) runs over such a disk. Whoever asked for
something that is refused is told so by an error of Atoll's own, may ask again, and gets it once
the disk works; nothing that was acknowledged is lost, nothing that was refused appears.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import replay, report, volume
from interpose import SYNCS, Interposer
from storage_life import Ledger, Life

from atoll.errors import AtollError

_FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
_REFUSALS_BEFORE_CLEARING = 3
GOES_ON_SECONDS_MAX = 60.0


pytestmark = pytest.mark.usefixtures("small_streams")


@pytest.fixture
def fast() -> Iterator[Path]:
    """A folder in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=_FAST, prefix="atoll-refusing-") as folder:
        yield Path(folder)


class Client:
    """Asks again whatever was refused, and counts."""

    def __init__(self, root: Path, disk: Interposer) -> None:
        self.root = root
        self.disk = disk
        self.ledger = Ledger((), (), ())
        self.refused: list[int] = []
        self.refusals = 0
        self.cleared_at = 0.0
        self.slowest = 0.0
        self.next_append = 0
        self.life: Life = self.ask(lambda: Life(root, self.ledger.mark))

    def ask(self, what: Callable[[], Any]) -> Any:
        """Ask until it is done; the disk works again after some refusals."""
        while True:
            try:
                done = what()
            except AtollError as error:
                assert error.code == "E-STORAGE", repr(error)  # noqa: PT017  # asked again
                self.refusals += 1
                if self.refusals == _REFUSALS_BEFORE_CLEARING:
                    self.disk.clear()
                    self.cleared_at = time.monotonic()
                assert self.refusals < 20, "it is refused for ever"
                continue
            if self.cleared_at:
                self.slowest = max(self.slowest, time.monotonic() - self.cleared_at)
                self.cleared_at = 0.0
            return done

    def append(self, count: int, *, streamed: bool = False) -> None:
        """Append; what is refused is given up, and other records are appended instead."""

        def once() -> None:
            self.next_append += 1
            self.refused.append(self.next_append)
            self.life.append(self.next_append, count, streamed=streamed)
            self.refused.pop()

        self.ask(once)

    def work(self) -> None:
        """Appends of every kind, microbatches, a checkpoint, trimming, a second life."""
        for life in range(2):
            if life:
                self.life.close()
                self.life = self.ask(lambda: Life(self.root, self.ledger.mark))
            for number in range(4):
                self.append(7)
                self.append(20)
                if number == 2:
                    self.append(120, streamed=True)
                self.ask(self.life.microbatch)

    def check(self) -> None:
        """All that was promised is there, nothing that was refused."""
        self.ledger.check(self.life)
        found = {
            row["append"]
            for partition in (0, 1)
            for row in self.life.depot.read(
                partition,
                self.life.depot.start_offsets()[partition],
                self.life.depot.end_offsets()[partition],
            ).to_pylist()
        }
        assert not found & set(self.refused), "an append that was refused is there"


def calls_of(root: Path) -> int:
    """How many calls the work takes on a disk that refuses nothing."""
    with Interposer(root) as disk:
        client = Client(root, disk)
        client.work()
        client.life.close()
    return disk.calls


def run(root: Path, number: int, error: int, times: int | None) -> Client:
    """The work on a disk that refuses from a call on; then what the next life finds."""
    root.mkdir()
    with Interposer(root) as disk:
        disk.fail_at(number, error, times)
        client = Client(root, disk)
        client.work()
        assert disk.faults, "nothing was refused"
        assert not disk.reused, "a descriptor whose fsync failed was synced again"
        disk.clear()
        client.check()
        client.life.close()
    client.life = Life(root, client.ledger.mark)
    client.ledger.check(client.life)
    client.life.close()
    return client


@pytest.mark.parametrize("times", [1, None], ids=["once", "until cleared"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
def test_refusing_at_every_call(fast: Path, error: int, times: int | None) -> None:
    """Refused at the n-th call: asked again it is done, and nothing is lost or doubled."""
    (fast / "calm").mkdir()
    calls = calls_of(fast / "calm")
    assert calls > 100
    stride = max(1, calls // volume(10, calls))
    began = time.monotonic()
    done, slowest, refusals = 0, 0.0, 0
    for number in range(1, calls + 1, stride):
        try:
            client = run(fast / "root", number, error, times)
        except (AssertionError, OSError) as problem:
            raise AssertionError(
                f"call {number}: {problem}\n{replay('test_disk_faults.py')}"
            ) from problem
        done, slowest = done + 1, max(slowest, client.slowest)
        refusals += client.refusals
        shutil.rmtree(fast / "root")
    assert refusals
    assert slowest < GOES_ON_SECONDS_MAX
    name = f"{errno.errorcode[error]} {'once' if times else 'until cleared'}"
    report(name, done, 0, began, goes_on_ms=round(slowest * 1000, 1))


@pytest.mark.parametrize("kind", SYNCS)
def test_failed_fsync_is_final(fast: Path, kind: str) -> None:
    """Every fsync fails for a while: no descriptor that failed is ever synced again."""
    with Interposer(fast) as disk:
        client = Client(fast, disk)
        for _ in range(8):
            client.refusals = 0
            disk.fail_at(disk.calls + 1, errno.EIO, 2, kinds=(kind,))
            client.append(3)
            client.ask(client.life.microbatch)
            disk.clear()
        assert len(disk.sync_faults) > 8
        assert not disk.reused
        client.check()
        client.life.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of two megabytes; skipped where mounting is not allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    """Fill the disk, be refused, make room, go on: all that was acknowledged is there."""
    root = small_disk / "root"
    root.mkdir()
    ballast = small_disk / "ballast"
    with Interposer(root) as disk:
        client = Client(root, disk)
        client.append(7)
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        refused = 0
        for count in (120, 120, 120):
            try:
                client.life.append(1000 + refused, count)
            except AtollError as error:
                assert error.code == "E-STORAGE"  # noqa: PT017  # some may fit
                client.refused.append(1000 + refused)
                refused += 1
        assert refused, "the disk was not full"
        ballast.unlink()
        began = time.monotonic()
        client.append(20)
        client.ask(client.life.microbatch)
        assert time.monotonic() - began < GOES_ON_SECONDS_MAX
        client.check()
        client.life.close()
