"""Another life of Spark after its JVM has died, and when there is none."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from atoll.cluster.engines import engine_named
from atoll.errors import SparkLostError
from atoll.spark.jobs.failures import is_broken, job_failure
from atoll.spark.jvm import lives as lives_of
from atoll.spark.jvm.lives import Lives

CHILD = Path(__file__).with_name("lives_child.py")


class _Process:
    """A JVM that has ended."""

    def __init__(self, code=-9):
        self.pid = 1 << 30
        self.returncode = code
        self.stdin = None

    def poll(self):
        """Its exit code."""
        return self.returncode

    def wait(self, seconds):
        """It has ended already, or would not in time."""
        if self.returncode is None:
            raise subprocess.TimeoutExpired("java", seconds)


def _session(process, scratch="/nowhere"):
    client = SimpleNamespace()
    gateway = SimpleNamespace(proc=process, _gateway_client=client)
    context = SimpleNamespace(
        _gateway=gateway,
        _jsc=object(),
        _accumulatorServer=SimpleNamespace(),
        _temp_dir=f"{scratch}/x",
    )
    return SimpleNamespace(sparkContext=context)


def test_topologies_go_on_after_the_death_of_the_jvm():
    """With the user's own Spark functions; who holds a frame of the dead JVM hears of it."""
    run = subprocess.run(
        [sys.executable, str(CHILD)], check=False, capture_output=True, text=True, timeout=500
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.splitlines() == [
        "both topologies went on",
        "one restart for both",
        "the old frame says why",
        "a new frame reads",
    ]
    ours = Path(lives_of.__file__).parents[1]  # Spark's own Python daemons tell of a broken pipe
    assert f'File "{ours}' not in run.stderr, run.stderr[-4000:]


def test_a_session_of_somebody_elses_is_not_started_anew():
    """Nobody here knows how it was made: the error says so, each time."""
    session, lives = _session(_Process()), Lives()
    assert lives.is_dead(session)
    for _ in range(2):
        with pytest.raises(SparkLostError) as caught:
            lives.bury(session)
        assert "was given" in caught.value.message


def test_a_given_session_that_is_dead_is_given_only_once():
    """The cluster would run on it for ever; whoever asks for it hears why it cannot."""
    engine = engine_named("spark", 2, _session(_Process()))
    for _ in range(2):
        with pytest.raises(SparkLostError, match="was given"):
            engine.session  # noqa: B018 - a property that raises


def test_a_jvm_that_lives_is_not_dead():
    """Also when a connection broke; and one that Python is a child of is never looked at."""
    lives = Lives()
    assert not lives.is_dead(_session(_Process(None)), broken=True)
    assert not lives.is_dead(_session(None), broken=True)


def test_too_many_deaths_are_not_chance(monkeypatch, tmp_path):
    """Each is followed by a longer wait, the fifth within five minutes by none."""
    lives, waits = Lives(), []
    clock = SimpleNamespace(sleep=waits.append, monotonic=time.monotonic)
    monkeypatch.setattr(lives_of, "time", clock)
    for number in range(5):
        session = _session(_Process(), tmp_path / str(number))
        lives.born(session)
        token = lives.token
        assert lives.is_dead(session)
        if number == 4:
            with pytest.raises(SparkLostError, match="5 times"):
                lives.bury(session)
        else:
            lives.bury(session)
            assert lives.token != token
    assert waits == [0.5, 1.0, 2.0]
    monkeypatch.setattr(lives_of, "_DEATHS_SECONDS", -1.0)
    lives.bury(session)
    assert lives.restarts == 4, "the first was no restart"


def test_a_broken_connection_is_known_by_what_it_is():
    """However deep it lies under what was raised because of it."""
    deep, above = ConnectionRefusedError(111, "refused"), RuntimeError("so")
    above.__cause__ = deep
    assert is_broken(above)
    assert not is_broken(ValueError("no"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SparkException: Python worker exited unexpectedly (crashed)", "E-WORKER-LOST"),
        ("Lost task 0.3: ExecutorLostFailure (executor 1 exited)", "E-WORKER-LOST"),
        ("java.lang.OutOfMemoryError: Java heap space\\n at x", "E-TOO-LARGE"),
        ("pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays", "E-TOO-LARGE"),
        ("Job aborted", "E-SPARK"),
    ],
)
def test_what_is_cut_smaller_has_a_code_of_its_own(text, code):
    """As Spark says it on the driver."""
    found = job_failure(Exception(text))
    assert found.code == code
    assert (found.hint is None) == (code == "E-SPARK")
