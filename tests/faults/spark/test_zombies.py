"""An old coordinator that was stopped, and goes on when another one has taken over.

A process is stopped by SIGSTOP at a place of the protocol; a second one starts on the same root
and commits; then the first is continued. It stops by itself within seconds and says who took
over; nothing that it writes after that is visible, and the second one goes on. The same without
Spark for two processes started at once, and for tasks that run twice or come late.
"""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

import pytest
import spark_checks as checks
import spark_scenario as scenario
from harness import report, soaking, volume
from spark_processes import LINE_SECONDS_MAX, STEPS, Child, wait_until

from atoll.cluster.local import LocalCluster
from atoll.engine import inline
from atoll.errors import FencedError, NotFoundError

PLACES = (*STEPS, "inside", "append")
FENCED_SECONDS_MAX = 30.0
COMMITS_MEANWHILE = 3
INLINE = {"ATOLL_ENGINE": "inline"}


@contextlib.contextmanager
def processes(root):
    """Starts processes of the scenario; none of them outlives the block."""
    root.parent.mkdir(parents=True)
    started = []

    def start(*how, **environment):
        started.append(Child("spark_child.py", root, *how, **environment))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            each.clean()


def is_stopped(pid):
    """Whether all of a process stands still."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] in {"T", "t"}


def zombie(folder, place, **engine):
    """One old coordinator, stopped at a place and continued; how long until it knew."""
    root = folder / "root"
    commits = checks.CommitBook(root)
    with processes(root) as start:
        old = start("forever", ATOLL_STOP=place, ATOLL_ACKS="old-acks.log", **engine)
        wait_until(lambda: is_stopped(old.process.pid), LINE_SECONDS_MAX, f"stop at {place}")
        new = start("forever", ATOLL_FIRST=str(checks.PRODUCER), **engine)
        for _ in range(COMMITS_MEANWHILE):
            new.until("commit")
        commits.collect()
        seen = checks.check_reader(root, 0)
        old.process.send_signal(signal.SIGCONT)
        continued_at = time.monotonic()
        fenced = old.until("fenced", LINE_SECONDS_MAX)
        taken = time.monotonic() - continued_at
        assert f"process {new.process.pid} on" in " ".join(fenced), fenced
        assert old.ended() == 3, old.said()
        refused = [words for words in old.lines if words[0] == "refused"]
        assert refused[0][1] == "E-FENCED", refused
        for _ in range(COMMITS_MEANWHILE):
            new.until("commit")
        commits.collect()
        checks.check_reader(root, seen)
        assert new.kill() == -signal.SIGKILL
        last = start("more", 20, ATOLL_FIRST=str(checks.PRODUCER), **engine)
        last.until("finished")
        assert last.ended() == 0, last.said()
        checks.check_all(root, commits)
        _check_epochs(commits)
    return taken


def _check_epochs(commits):
    """Nothing of the old life was committed after the new one began; both have committed."""
    epochs = commits.epochs()
    assert epochs == sorted(epochs)
    assert {1, 2} <= set(epochs)


@pytest.mark.parametrize("place", PLACES)
def test_stopped_and_continued(tmp_path, place):
    """At the beginning of each step, inside a user's function, and in the middle of an append."""
    began = time.monotonic()
    rounds = volume(1, 5)
    taken = [zombie(tmp_path / str(number), place, **INLINE) for number in range(rounds)]
    assert max(taken) <= FENCED_SECONDS_MAX, taken
    report(f"zombies, {place}", rounds, 0, began, slowest_seconds=round(max(taken), 2))


@pytest.mark.slow
@pytest.mark.skipif(not soaking(), reason="four minutes: with ATOLL_SOAK=1")
@pytest.mark.parametrize("place", STEPS)
def test_stopped_and_continued_on_spark(tmp_path, place):
    """The same where the old one's Java went on while its Python was stopped."""
    began = time.monotonic()
    rounds = volume(1, 5)
    taken = [zombie(tmp_path / str(number), place) for number in range(rounds)]
    assert max(taken) <= FENCED_SECONDS_MAX, taken
    report(f"zombies on Spark, {place}", rounds, 0, began, slowest_seconds=round(max(taken), 2))


def test_two_started_at_once(tmp_path):
    """Exactly one goes on; the other says so; together they lost and doubled nothing."""
    began = time.monotonic()
    rounds = volume(3, 20)
    for number in range(rounds):
        _two_at_once(tmp_path / str(number) / "root")
    report("two coordinators at once", rounds, 0, began)


def _two_at_once(root):
    commits = checks.CommitBook(root)
    with processes(root) as start:
        both = [
            start(
                "forever",
                ATOLL_FIRST=str(each * checks.PRODUCER),
                ATOLL_ACKS=f"{each}-acks.log",
                **INLINE,
            )
            for each in range(2)
        ]
        wait_until(
            lambda: any(each.process.poll() is not None for each in both),
            LINE_SECONDS_MAX,
            "the end of one of them",
        )
        loser, winner = sorted(both, key=lambda each: each.process.poll() is None)
        assert loser.ended() != 0
        said = " ".join(" ".join(words) for words in loser.lines) + loser.said()
        assert "E-FENCED" in said, said
        assert str(winner.process.pid) in said, said
        for _ in range(COMMITS_MEANWHILE):
            winner.until("commit")
        commits.collect()
        assert winner.kill() == -signal.SIGKILL
        last = start("more", 20, ATOLL_FIRST=str(2 * checks.PRODUCER), **INLINE)
        last.until("finished")
        assert last.ended() == 0, last.said()
        checks.check_all(root, commits)


class Tasks:
    """Runs every task of the inline engine, and keeps what it was called with."""

    def __init__(self, monkeypatch):
        self.calls = []
        self.twins = 0
        self.real = inline.run_actor
        monkeypatch.setattr(inline, "run_actor", self.run)

    def run(self, program, spec, unit, blobs):
        """The task, and every other time a twin before or after it; one of both counts."""
        blobs = list(blobs)
        self.calls.append((program, spec, unit, blobs))
        manifests = [self.real(program, spec, unit, blobs)]
        if len(self.calls) % 2:
            self.twins += 1
            manifests.append(self.real(program, spec, unit, blobs))
            assert manifests[0].token != manifests[1].token
        return manifests[len(self.calls) // 2 % len(manifests)]


def test_twins_and_late_tasks(tmp_path, monkeypatch):
    """A task that runs twice counts once; one of an earlier attempt or microbatch is refused."""
    began = time.monotonic()
    tasks = Tasks(monkeypatch)
    root = tmp_path / "root"
    late = 0
    rounds = volume(10, 100)
    with LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(scenario.build(columns=False))
        for number in range(rounds):
            records = [scenario.record_of(n) for n in range(number * 30, number * 30 + 30)]
            app.depot(scenario.DEPOT).append(records)
            app.topology(scenario.TOPOLOGY).wait_processed(30 * (number + 1))
            before = scenario.shown(root)
            for call in tasks.calls[:: 1 + len(tasks.calls) // 8]:
                late += _late(tasks.real, *call)
            assert scenario.shown(root) == before
        stored = [record for partition in scenario.stored(root) for record in partition]
        assert scenario.shown(root) == scenario.fold(stored)
        assert len(stored) == 30 * rounds
    assert late > rounds
    assert tasks.twins > rounds
    report("twins and late tasks", late + tasks.twins, 0, began, late=late, twins=tasks.twins)


def _late(run, program, spec, unit, blobs):
    """A task long over runs once more; whether it was refused.

    By its stores, or because the commit that it follows was dropped long ago.
    """
    try:
        run(program, spec, unit, blobs)
    except (FencedError, NotFoundError):
        return True
    return False
