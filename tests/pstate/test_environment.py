"""Holds how environments are opened, shared, given up and survived."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from atoll.pstate.store import environment as module
from atoll.pstate.store.environment import EnvironmentCache

CONFTEST = Path(__file__).parent / "conftest.py"
VICTIM = f"""
import runpy, sys
World = runpy.run_path({str(CONFTEST)!r})["World"]
world = World(sys.argv[1])
session = world.open(world.attempt(version=2))
keys = sorted(b"%05d" % number for number in range(20_000))
session.put_many(keys, [b"killed"] * len(keys))
session.put(b"a", b"killed")
if sys.argv[2] == "after":
    session.commit()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_writer(new_world, tmp_path, moment):
    """Killed in the middle of a session, or between its commit and the microbatch's."""
    world = new_world(tmp_path, map_bytes=1 << 26)
    world.commit(world.run({0: {b"a": b"1"}}))
    world.save()
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(tmp_path), moment],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    ) as victim:
        assert victim.stdout.readline() == "ready\n"
        world.check(1, [b"00007"])
        victim.send_signal(signal.SIGKILL)
    world.check(1, [b"00007"])
    with world.open(world.attempt(version=3)) as session:
        assert session.opening.undone == (moment == "after")
        assert list(session.scan()) == [(b"a", b"1")]
    world.commit(world.run({0: {b"b": b"2"}}, version=3))
    world.check(2, [b"a", b"00007"])


def test_few_stay_open(new_world):
    """More vnodes than may be open at once: the least recently used ones are closed."""
    world = new_world(open_max=3, vnodes=tuple(range(10)))
    world.commit(world.run({vnode: {b"a": b"%d" % vnode} for vnode in range(10)}))
    world.check(1)
    assert len(world.environments._open) <= 3


def test_those_in_use_are_not_closed(new_world):
    """A limit is no reason to close what has a transaction."""
    world = new_world(open_max=2, vnodes=tuple(range(5)))
    attempt = world.attempt()
    sessions = [world.open(attempt, vnode) for vnode in range(5)]
    for session in sessions:
        session.put(b"a", b"1")
    for session in sessions:
        assert session.commit().keys == [b"a"]


def test_those_below_a_folder_are_closed(new_world, tmp_path):
    """Of one module's, and not of another whose name begins alike; nor what has a transaction."""
    world = new_world(tmp_path, vnodes=(0, 1))
    world.commit(world.run({vnode: {b"a": b"1"} for vnode in (0, 1)}))
    environments, paths = world.environments, [world.stores.path("counts", n) for n in (0, 1)]
    environments.close(Path(paths[0]).parent.parent / "count")
    environments.close(f"{paths[0]}0")
    assert list(environments._open) == paths
    used = environments.acquire(paths[1])
    environments.close(Path(paths[0]).parent)
    assert list(environments._open) == paths[1:]
    environments.release(used)
    environments.close(Path(paths[0]).parent)
    assert not environments._open


def test_another_boot_is_not_trusted(new_world, tmp_path):
    """LMDB runs without fsync: after a reboot the store is built from the log."""
    world = new_world(tmp_path)
    world.commit(world.run({0: {b"a": b"1"}}))
    world.environments.close()
    boot = Path(world.stores.path("counts", 0), "boot")
    boot.write_text("another boot")
    with world.open(world.attempt()) as session:
        assert session.opening.kind == "absent"
        assert session.get(b"a") == b"1"
    assert boot.read_text() == module.boot_id()


def test_a_file_that_is_no_store_is_dropped(new_world, tmp_path):
    """Damage that LMDB sees when it opens the file."""
    world = new_world(tmp_path)
    world.commit(world.run({0: {b"a": b"1"}}))
    world.environments.close()
    Path(world.stores.path("counts", 0), "data.mdb").write_bytes(b"nonsense" * 4096)
    world.check(1)


def test_a_forked_child_opens_its_own(world):
    """Nothing that the parent opened is used, or closed, in a child."""
    world.commit(world.run({0: {b"a": b"1"}}))
    child = os.fork()
    if child == 0:
        try:
            ours = world.view().get(0, b"a") == b"1"
            with world.open(world.attempt()) as session:
                session.put(b"b", b"2")
                session.commit()
        except BaseException:  # noqa: BLE001  # the exit code tells the parent
            os._exit(2)
        os._exit(0 if ours else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    world.check(1, [b"b"])
    world.commit(world.run({0: {b"c": b"3"}}, version=2))
    world.check(2)


def test_the_limit_follows_the_open_files():
    """At least a few, at most a few thousand."""
    assert 16 <= module._open_limit() <= 4096


def test_release_and_close(tmp_path):
    """What is in use outlives close; afterwards it can be opened again."""
    cache = EnvironmentCache(map_bytes=1 << 20)
    held = cache.acquire(str(tmp_path / "p" / "0"))
    cache.close()
    assert cache.acquire(str(tmp_path / "p" / "0")) is held
    cache.release(held)
    cache.release(held)
    cache.close()
    assert cache.acquire(str(tmp_path / "p" / "0")) is not held
