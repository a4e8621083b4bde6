"""Damaged local stores: dropped and built again from the committed log, without anybody's help.

Each damage is met by a process of its own, because LMDB maps the file: what is wrong with it may
end the process. LMDB keeps no checksums: a changed byte within the data of a page is not found.
"""

from __future__ import annotations

import faulthandler
import os
import random
import resource
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import report, seed
from storage_life import MODULE, PSTATE, TOPOLOGY, Life

from atoll.errors import AtollError, StorageError
from atoll.microbatch.commits.history import CommitHistory
from atoll.microbatch.commits.objects import Commit, LogFile, PStateCommit, encode, pack_ids
from atoll.pstate.store.attempt import Attempt
from atoll.pstate.store.environment import EnvironmentCache
from atoll.pstate.store.store_file import is_cut_short
from atoll.pstate.store.stores import VnodeStores
from atoll.pstate.view import PStateView

_PAGE = 4096
_TRIES_MAX = 3
_FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class World:
    """A root whose one commit gives a thousand entries, and the local stores built from it."""

    def __init__(self, folder: Path) -> None:
        self.local = folder / "local"
        life = Life(folder / "root")
        self.wanted = {f"key-{n}": b"value-%d" % n for n in range(4000)}
        log = LogFile(life._file("logs/1", self.wanted), [0, 1])
        part = PStateCommit(pack_ids([1, 1]), [[log]], [])
        self.commit = Commit(1, 1, 1, 0, {}, 0, 0, ["token"], {PSTATE: part}, 1)
        life.commits.create(1, encode(self.commit))
        self.store = life.store
        life.close()
        self.use()
        self.file = self.local / PSTATE / "0" / "data.mdb"
        self.whole = self.file.read_bytes()

    def use(self) -> None:
        """Read all, write some, as a task and as a reader do; what they see must be right."""
        environments = EnvironmentCache(None, 1 << 26)
        stores = VnodeStores(self.local, environments=environments)
        history = CommitHistory(self.store, MODULE, TOPOLOGY, self.commit)
        found: dict[str, bytes] = {}
        for vnode in (0, 1):
            version = time.monotonic_ns()  # later processes do not have higher numbers always
            attempt = Attempt(1, 2, version, 0, f"token-{version}")
            with stores.open(PSTATE, vnode, attempt, history) as session:
                found |= {key.decode(): value for key, value in session.scan()}
                session.put_many([b"new"], [b"x" * 100])
                session.commit()
        assert found == self.wanted
        view = PStateView(stores, PSTATE, 2, history)
        seen = {key.decode(): value for vnode in (0, 1) for key, value in view.scan(vnode)}
        assert seen == self.wanted
        environments.close()

    def met(self) -> tuple[bool, list[int]]:
        """Whether processes of their own get the right state at last; and how they ended."""
        ends = []
        for _ in range(_TRIES_MAX):
            ends.append(_in_child(self.use))
            if ends[-1] == 0:
                break
        return ends[-1] == 0 and _WRONG not in ends, ends


_WRONG = 7


def _in_child(work: Callable[[], None]) -> int:
    """0: right; 1: an error of Atoll's; 7: wrong data; 8: another error; negative: a signal."""
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        status = 0
        try:
            work()
        except AtollError:
            status = 1
        except AssertionError:
            status = _WRONG
        except BaseException:  # noqa: BLE001  # told by the status
            traceback.print_exc()
            status = 8
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture(scope="module")
def built() -> Iterator[World]:
    """The world, once for all."""
    with tempfile.TemporaryDirectory(dir=_FAST, prefix="atoll-local-") as folder:
        yield World(Path(folder))


@pytest.fixture
def world(built: World) -> World:
    """The world with its stores whole."""
    shutil.rmtree(built.local)
    built.use()
    built.file.write_bytes(built.whole)
    return built


def check(world: World, damages: Iterator[tuple[str, bytes]], suite: str) -> None:
    """Each damage is met by errors of Atoll's own, at worst by two deaths, and then gone."""
    began = time.monotonic()
    count = deaths = 0
    for about, data in damages:
        world.file.write_bytes(data)
        right, ends = world.met()
        assert right, f"{about}: {ends}"
        assert 8 not in ends, f"{about}: {ends}"
        deaths += sum(end < 0 for end in ends)
        count += 1
    assert count
    report(suite, count, 0, began, deaths=deaths)


def test_cut_files(world: World) -> None:
    """A store that has lost its end is dropped before it is mapped."""
    whole = world.whole
    sizes = [0, 1, 100, _PAGE - 1, _PAGE, 2 * _PAGE - 1, 2 * _PAGE, 3 * _PAGE, len(whole) // 2]
    sizes += [len(whole) - _PAGE, len(whole) - 1]
    assert not is_cut_short(str(world.file))
    check(world, ((f"cut at {size}", whole[:size]) for size in sizes), "local store, cut")


def test_pages_of_zeros_and_garbage(world: World) -> None:
    """Every page in turn becomes zeros, or noise."""
    whole, random_ = world.whole, random.Random(seed())

    def damages() -> Iterator[tuple[str, bytes]]:
        for at in range(0, len(whole), _PAGE):
            for about, page in (("zeros", bytes(_PAGE)), ("noise", random_.randbytes(_PAGE))):
                yield f"{about} at page {at // _PAGE}", whole[:at] + page + whole[at + _PAGE :]

    check(world, damages(), "local store, pages")


def test_other_files(world: World) -> None:
    """Garbage, a file that is gone, a lock file that is gone, an old copy: all the same."""
    noise = random.Random(seed()).randbytes(50_000)
    other = (world.local / PSTATE / "1" / "data.mdb").read_bytes()
    check(world, iter([("noise", noise), ("zeros", bytes(50_000))]), "local store, garbage")
    for name in ("data.mdb", "lock.mdb", "boot"):
        (world.file.parent / name).unlink()
        assert world.met() == (True, [0]), name
    shutil.rmtree(world.file.parent)
    assert world.met() == (True, [0])
    assert other


@pytest.mark.parametrize("spare", [0, 8192, 65536])
def test_disk_full_for_the_local_store(world: World, spare: int) -> None:
    """A store that cannot grow fails with Atoll's own error, and works again afterwards."""
    shutil.rmtree(world.local)

    def starved() -> None:
        soft = spare
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
        try:
            world.use()
        except StorageError:
            pass
        else:
            raise OSError("it was to fail")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        world.use()

    assert _in_child(starved) == 0
