"""A disk that refuses under a whole cluster: everything waits, nothing is lost, all goes on.

Two topologies, appends between them, and a client that appends all the time. From some call on
the disk refuses everything, below the root or in the local folder, until it has been seen that the
topologies are stuck. They must stay *running* however often they are refused, since nobody is to
blame; and go on by themselves as soon as the disk works.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, Self

import lmdb
import oracle
import pytest
import scenario
from checker import Told, check
from harness import replay, report, volume
from interpose import Interposer
from trial import expected_after, scratch

from atoll import LocalCluster
from atoll.errors import StorageError
from atoll.microbatch.events import Step
from atoll.pstate.store.environment import shared_environments
from atoll.pstate.store.vnode_writer import VnodeWriter

ROUNDS = 4
GOES_ON_SECONDS_MAX = 60.0
_ATTEMPTS_MAX = 2
_ATTEMPTS_SEEN = volume(ci=4, soak=8)
"""More failed attempts than a topology survives whose own code fails."""
_PATIENT_MS = 5_000
_PATIENT_EVERY = volume(ci=5, soak=26)
_CAP_SECONDS = 120.0
PLACES = ("root", "local files", "local stores")


class Sick(Protocol):
    """A disk, or a part of one, that refuses from its n-th call on until it is cleared."""

    calls: int
    faults: int

    def fail_at(self, number: int, error: int, times: int | None) -> None:
        """From which call on."""

    def clear(self) -> None:
        """Refuse nothing any more."""


class SickStores:
    """Local stores whose transactions cannot be committed: LMDB writes them from C."""

    def __init__(self) -> None:
        self.calls = self.faults = 0
        self._first = self._error = 0
        self._known = VnodeWriter._commit

    def fail_at(self, number: int, error: int, _times: int | None) -> None:
        """From which commit on."""
        self._first, self._error = number, error

    def clear(self) -> None:
        """Refuse nothing any more."""
        self._first = 0

    def __enter__(self) -> Self:
        """Look at every commit."""

        def commit(session: VnodeWriter, blob: bytes | None) -> None:
            self.calls += 1
            if self._first and self.calls >= self._first:
                self.faults += 1
                raise lmdb.DiskError(f"mdb_txn_commit: {errno.errorcode[self._error]}")
            self._known(session, blob)

        VnodeWriter._commit = commit  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        """Look no longer."""
        VnodeWriter._commit = self._known  # type: ignore[method-assign]


def sick(place: str, root: Path) -> Any:
    """What shall refuse there."""
    if place == "local stores":
        return SickStores()
    return Interposer(root) if place == "root" else Interposer(root / "local", exclude=())


class Client:
    """Deploys, appends, and watches what the cluster does while the disk refuses.

    Attributes:
        refused: How many calls of its own were refused.
        stuck: How many topologies it has seen fail more often than they may on their own account.
        slowest: The longest time from the disk's recovery until all was processed, in seconds.
    """

    def __init__(self, root: Path, place: str, disk: Sick, delay_ms: int) -> None:
        self.root, self.place, self.disk = root, place, disk
        self.acked = dict.fromkeys(scenario.DEPOTS, 0)
        self.committed = dict.fromkeys(scenario.TOPOLOGIES, 0)
        self.refused, self.stuck, self.slowest = 0, 0, 0.0
        self.cleared = False
        self.options = {
            "topology.microbatch.retry.max.attempts": _ATTEMPTS_MAX,
            "topology.microbatch.retry.delay.max.millis": delay_ms,
        }
        self.app: Any = None

    def work(self, cluster: LocalCluster, rounds: int) -> int:
        """Work for so many rounds, or until the disk has refused; returns how many it took."""
        self.app = self._deployed(cluster)
        done = 0
        while done < rounds or not (self.disk.faults or self.cleared):
            done += 1
            assert done < 10 * rounds, "the disk never refused"
            for name, count in scenario.PER_ROUND.items():
                while self.acked[name] < count * done:
                    self._append(name, min(self.acked[name] + 3, count * done))
            self._settle()
        return done

    def _deployed(self, cluster: LocalCluster) -> Any:
        try:
            return cluster.deploy(scenario.build(**self.options))
        except StorageError:
            self.refused += 1
            self._clear()
            return cluster.deploy(scenario.build(**self.options))

    def _append(self, name: str, upto: int) -> None:
        records = [scenario.record_of(name, n) for n in range(self.acked[name], upto)]
        try:
            self.app.depot(name).append(records)
            self.acked[name] = upto
        except StorageError:
            self.refused += 1
            assert not self.cleared, "refused by a disk that works"
            self._suffer()

    def _settle(self) -> None:
        """Wait until all is processed, whatever happens meanwhile."""

        def processed() -> bool:
            if self.disk.faults and not self.cleared:
                self._suffer()
            return self._processed()

        until(processed)

    def _processed(self) -> bool:
        """Whether both topologies have processed everything; neither may ever have failed."""
        states = [self.app.topology(name).status() for name in scenario.TOPOLOGIES]
        assert all(each["state"] == "running" for each in states), states
        return all(
            not any(map(any, each["lag"].values())) and each["step"] == "idle" for each in states
        )

    def _suffer(self) -> None:
        """Look on while the disk refuses, then let it work again and measure."""
        until(self._has_seen_enough)
        for name in scenario.TOPOLOGIES:
            status = self.app.topology(name).status()
            assert status["state"] == "running", status
            self.committed[name] = status["committed"]
            if status["attempts_failed"] >= _ATTEMPTS_SEEN:
                assert status["error"]["code"] == StorageError.code, status
                self.stuck += 1
        if self.place == "root":
            for name in scenario.DEPOTS:
                with pytest.raises(StorageError):
                    self.app.depot(name).append([scenario.record_of(name, self.acked[name])])
            self._read()
        self._clear()
        began = time.monotonic()
        until(self._processed)
        self.slowest = max(self.slowest, time.monotonic() - began)

    def _has_seen_enough(self) -> bool:
        """Whether each topology was refused again and again, or has nothing to do."""
        states = [self.app.topology(name).status() for name in scenario.TOPOLOGIES]
        return self.disk.faults > 0 and all(
            each["attempts_failed"] >= _ATTEMPTS_SEEN
            or (each["step"] == "idle" and not any(map(any, each["lag"].values())))
            for each in states
        )

    def _read(self) -> None:
        """Reading goes on: the state of the last commit, which cannot be followed by another."""
        published = self.app._loops["bank"].published
        expected = oracle.bank(published.ends())
        found = scenario.state_of(self.app)
        assert self.app._loops["bank"].published is published
        assert {name: found[name] for name in expected} == expected

    def _clear(self) -> None:
        assert self.disk.faults, "refused by a disk that works"
        self.cleared = True
        self.disk.clear()


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a cap."""
    end = time.monotonic() + _CAP_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


@contextlib.contextmanager
def fresh() -> Iterator[Path]:
    """A root, and no store of it left open."""
    folder = scratch()
    try:
        yield folder / "root"
    finally:
        shared_environments().close()
        shutil.rmtree(folder)


def calls_of(place: str) -> int:
    """How many calls a calm life makes there."""
    with fresh() as root, sick(place, root) as disk, scenario.running(root) as app:
        for name, count in scenario.PER_ROUND.items():
            for at in range(0, count * ROUNDS, 2):
                records = [scenario.record_of(name, n) for n in (at, at + 1)]
                app.depot(name).append(records)
        scenario.step(app, ROUNDS)
        calls: int = disk.calls
        return calls


def run(root: Path, place: str, number: int | None, error: int, delay_ms: int) -> Client:
    """One life on a disk that refuses from a call on; then a calm one, and the checker.

    Without a number it is the call after the first plan: a topology is in the middle of it then.
    """
    with sick(place, root) as disk:
        planned = threading.Event()

        def observe(step: Step, _: int) -> None:
            if number is None and step == Step.PRIME and not planned.is_set():
                planned.set()
                disk.fail_at(disk.calls + 1, error, None)

        if number is not None:
            disk.fail_at(number, error, None)
        client = Client(root, place, disk, delay_ms)
        cluster = LocalCluster(root, engine="inline", observer=observe)
        with scenario.tuned(), cluster:
            rounds = client.work(cluster, ROUNDS)
            assert scenario.state_of(client.app) == expected_after(rounds)
            committed = {n: client.app.topology(n).status()["committed"] for n in client.committed}
        if isinstance(disk, Interposer):
            assert not disk.reused, "a descriptor whose fsync failed was synced again"
    assert client.cleared
    assert all(committed[name] >= before for name, before in client.committed.items())
    with scenario.running(root) as app:
        scenario.step(app, rounds)
        assert scenario.state_of(app) == expected_after(rounds)
    told = Told(acked=client.acked, committed=committed)
    check(str(root), told.as_json(), finished=True)
    return client


@pytest.mark.parametrize("place", PLACES)
def test_a_cluster_waits_for_its_disk(place: str) -> None:
    """Refused from the n-th call on: nothing fails for good, and all goes on in seconds."""
    calls = calls_of(place)
    assert calls > 20
    wanted = volume(10 if place == "root" else 4, 104)
    began = time.monotonic()
    clients = []
    numbers = [None, *(1 + index * calls // wanted for index in range(wanted))]
    for index, number in enumerate(numbers):
        error = (errno.ENOSPC, errno.EIO)[index % 2]
        delay_ms = _PATIENT_MS if index % _PATIENT_EVERY == 1 else 20  # the longest, or soon
        try:
            with fresh() as root:
                clients.append(run(root, place, number, error, delay_ms))
        except AssertionError as problem:
            about = f"{errno.errorcode[error]} from call {number or 'planned'} of about {calls}"
            again = replay("test_system_disk_faults.py")
            raise AssertionError(f"{about}: {problem}\n{again}") from problem
    slowest = max(each.slowest for each in clients)
    stuck = sum(each.stuck for each in clients)
    refused = sum(each.refused for each in clients)
    report(
        f"disk refuses a cluster, {place}",
        *(len(clients), 0, began),
        stuck=stuck,
        refused=refused,
        goes_on_ms=round(slowest * 1000, 1),
    )
    assert clients[0].stuck, "refused in the middle of its work it did not notice"
    assert slowest < GOES_ON_SECONDS_MAX
