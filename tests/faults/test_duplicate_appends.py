"""Appends sent again and again, over restarts and takeovers: each record is stored exactly once."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import replay, report, seed, volume

from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotSpec, Producer, Retention
from atoll.errors import FencedError, StoppedError

THREADS = 8
RECORDS_MAX = 5
LOST_SHARE = 0.2
OLDER_SHARE = 0.05
LATE = (0, 0)
"""Which sender's which append finds its depot gone when it comes to it."""

WAIT_SECONDS_MAX = 120

Sent = tuple[int, int]
"""First number of an append's records, and how many they are."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: this holds the logic, not the disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path / "depot"
        return
    made = Path(tempfile.mkdtemp(dir=memory))
    yield made / "depot"
    shutil.rmtree(made)


class World:
    """A depot that is opened again and again, and what has been read of it.

    Attributes:
        appended_max: From this count on the senders wait, so that restarts come often enough.
    """

    def __init__(self, folder: Path) -> None:
        """Open it the first time."""
        schema = parse_ddl("producer int NOT NULL, v long NOT NULL")
        self.folder = folder
        self.spec = DepotSpec(
            "depot", schema, 3, retention=Retention(records_max=0), segment_bytes_max=64 * 1024
        )
        self.epoch = 1
        self.depot = self.first = Depot(folder, self.spec, 1)
        self.changed = threading.Condition()
        self.appended = 0
        self.appended_max = 0
        self.counts: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self.read_to = [0] * 3
        self.seen: list[Counter[int]] = [Counter() for _ in range(THREADS)]
        self.last: dict[tuple[int, int], int] = {}

    def restart(self, *, takeover: bool) -> None:
        """Open it again, after closing it or while the earlier writer still runs."""
        older = self.depot
        if not takeover:
            older.close()
        self.epoch += 1
        self.depot = Depot(self.folder, self.spec, self.epoch)
        older.close()
        self.counts["takeovers" if takeover else "restarts"] += 1

    def read(self) -> None:
        """Read what is new, check its order, and let it go."""
        depot = self.depot
        for partition, end in enumerate(depot.end_offsets()):
            table = depot.read(partition, self.read_to[partition], end)
            producers, values = (column.to_pylist() for column in table.columns)
            for producer, value in zip(producers, values, strict=True):
                assert self.last.get((partition, producer), -1) < value
                self.last[partition, producer] = value
                self.seen[producer][value] += 1
            self.read_to[partition] = end
        self.counts["trimmed"] += depot.trim(self.read_to)


class Sender:
    """One producer, whose replies get lost."""

    def __init__(self, world: World, number: int, seed: int, appends: int) -> None:
        """Nothing sent yet."""
        self.world = world
        self.number = number
        self.appends = appends
        self.random = random.Random(seed * 1000 + number)
        self.sent: list[Sent] = []
        self.counts: Counter[str] = Counter()
        self.next_value = 0

    def run(self) -> None:
        """Send all, then tell what happened."""
        try:
            for _ in range(self.appends):
                with self.world.changed:
                    assert self.world.changed.wait_for(self._may_go_on, WAIT_SECONDS_MAX)
                self._one()
                with self.world.changed:
                    self.world.appended += 1
                    self.world.changed.notify_all()
        except BaseException as error:  # noqa: BLE001  # for the main thread to raise
            with self.world.changed:
                self.world.errors.append(error)
                self.world.changed.notify_all()
        with self.world.changed:
            self.world.counts.update(self.counts)

    def _may_go_on(self) -> bool:
        return self.world.appended < self.world.appended_max or bool(self.world.errors)

    def _one(self) -> None:
        """The next append; perhaps its reply is lost; perhaps an older one comes again."""
        count = self.random.randint(1, RECORDS_MAX)
        self.sent.append((self.next_value, count))
        self.next_value += count
        sequence = len(self.sent) - 1
        first = self._send(sequence)
        if self.random.random() < LOST_SHARE:
            self.counts["lost"] += 1
            for _ in range(self.random.randint(1, 5)):
                again = self._send(sequence)
                assert again.duplicate
                assert again.offsets == first.offsets
                self.counts["resent"] += 1
        if self.random.random() < OLDER_SHARE:
            assert self._send(self.random.randrange(len(self.sent))).duplicate
            self.counts["older"] += 1

    def _is_late(self) -> bool:
        return self.world.depot is not self.world.first or bool(self.world.errors)

    def _send(self, sequence: int) -> Any:
        """Send until there is an answer."""
        first, count = self.sent[sequence]
        rows = [{"producer": self.number, "v": first + n} for n in range(count)]
        for _ in range(1000):
            depot = self.world.depot
            if (self.number, sequence) == LATE and depot is self.world.first:
                with self.world.changed:  # so that one at least comes to a depot of before
                    self.world.changed.wait_for(self._is_late, WAIT_SECONDS_MAX)
            try:
                answer = depot.append(rows, producer=Producer(f"p{self.number}", sequence))
            except (FencedError, StoppedError):
                self.counts["refused"] += 1
                with self.world.changed:
                    self.world.changed.wait_for(lambda old=depot: self.world.depot is not old, 30)
                continue
            assert answer.count == count
            return answer
        raise AssertionError("no answer")


def drive(world: World, seed: int, total: int) -> None:
    """Restart, read and trim while the senders send."""
    random_ = random.Random(seed)
    senders = [Sender(world, n, seed, total // THREADS) for n in range(THREADS)]
    threads = [threading.Thread(target=sender.run, daemon=True) for sender in senders]
    for thread in threads:
        thread.start()
    step = max(total // 100, 50)
    expected = THREADS * (total // THREADS)
    while world.appended < expected and not world.errors:
        goal = min(expected, world.appended + random_.randint(step // 2, step))
        with world.changed:
            world.appended_max = goal + step
            world.changed.notify_all()
            assert world.changed.wait_for(
                lambda goal=goal: world.appended >= goal or world.errors, WAIT_SECONDS_MAX
            )
        if random_.random() < 0.5:
            world.restart(takeover=random_.random() < 0.5)
            with world.changed:
                world.changed.notify_all()
        world.read()
    for thread in threads:
        thread.join(WAIT_SECONDS_MAX)
        assert not thread.is_alive()
    if world.errors:
        raise world.errors[0]
    world.restart(takeover=False)
    world.read()
    world.depot.close()
    for sender in senders:
        values = world.seen[sender.number]
        assert len(values) == sender.next_value, "a record is missing"
        assert values.total() == sender.next_value, "a record is there twice"


def test_each_record_once(folder: Path) -> None:
    """With a fifth of the replies lost, resends, old resends, restarts, takeovers and trimming."""
    used = seed()
    total = volume(10_000, 1_000_000)
    world = World(folder)
    begun = time.monotonic()
    try:
        drive(world, used, total)
    except BaseException:
        print(replay("test_duplicate_appends.py", used))  # to run it again
        raise
    counts = world.counts
    assert counts["lost"] > total * LOST_SHARE / 2
    assert counts["resent"] > counts["lost"]
    assert min(counts[name] for name in ("older", "restarts", "takeovers", "refused")) > 0
    assert counts["trimmed"] > 1
    faults = sum(counts[name] for name in ("resent", "older", "restarts", "takeovers"))
    report("duplicate-appends", faults, 0, begun, appends=total, **counts)
