"""What a standing task does with whoever is at the other end, and with what it is asked."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import msgspec
import pytest
from standing_fakes import LONG

from atoll.spark.standing import task as tasks
from atoll.spark.standing.messages import Hello, Part, Reply, Request, Work
from atoll.spark.standing.task import StandingTask, answer
from atoll.spark.standing.wire import ImpostorError, Wire, verify

SECRET = b"s" * 32


class _Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, file):
        self.file = str(file)

    def __reduce__(self):
        return os.mkdir, (self.file,)


@pytest.fixture
def listener(tmp_path, monkeypatch):
    """Where a driver listens; and the task believes that it is Spark's."""
    context = SimpleNamespace(attemptNumber=lambda: 4)
    monkeypatch.setattr(tasks, "TaskContext", SimpleNamespace(get=lambda: context))
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "driver"))
        made.listen()
        yield made


def standing(listener, secret=SECRET):
    """The task's whole life, in a thread; what it returns or raises."""
    task = StandingTask(listener.getsockname(), secret, "host", 3, generation=2)
    pool = ThreadPoolExecutor(1)
    ended = pool.submit(lambda: list(task(iter(()))))
    pool.shutdown(wait=False)
    return Wire(listener.accept()[0]), ended


def request(number, **changed):
    """A request to act."""
    asked = Request(number, Work.DIRECT, f"digest {number}", b"", b"", [Part(0), Part(3)])
    return msgspec.structs.replace(asked, **changed)


def test_it_says_who_it_is_and_works_until_the_driver_lets_go(listener):
    """What cannot be done is answered like all else; then it ends, as a task that succeeded."""
    driver, ended = standing(listener)
    hello = msgspec.msgpack.decode(verify(driver, SECRET), type=Hello)
    assert hello == Hello("host", 3, 2, 4, os.getpid())
    for number in (5, 6):
        driver.send(msgspec.msgpack.encode(request(number, program=b"no pickle")))
        reply = msgspec.msgpack.decode(driver.receive(), type=Reply)
        assert reply.number == number
        assert reply.failure is not None
    driver.close()
    assert ended.result(LONG) == []


def test_nothing_is_unpickled_for_who_has_not_proved_himself(listener, tmp_path):
    """A listener that does not know the secret sends requests at once, at every stage."""
    mark = tmp_path / "mark"
    bomb = pickle.dumps(_Bomb(mark))
    asked = msgspec.msgpack.encode(request(1, program=bomb, spec=bomb))
    for before in ([], [b"c" * 32], [b"c" * 32, b"d" * 32]):
        driver, ended = standing(listener)
        with contextlib.suppress(BrokenPipeError):  # it has let go before all was said
            for message in (*before, asked):
                driver.send(message)
        assert isinstance(ended.exception(LONG), ImpostorError)
        driver.close()
    assert not mark.exists()
    answer(request(1, program=bomb))
    assert mark.exists(), "the bomb works"


def test_a_driver_that_hangs_up_before_it_has_proved_itself(listener):
    """The Spark task fails; the post's next one tries again."""
    driver, ended = standing(listener)
    driver.close()
    assert isinstance(ended.exception(LONG), EOFError | OSError)


def test_the_secret_is_in_no_text():
    """Spark writes tasks into plans and logs."""
    task = StandingTask("/run/x", b"very secret", "host", 3, generation=2)
    assert "secret" not in repr(task)
    assert "host" in str(task)
    assert task.__name__ == "standing task"


def test_a_program_that_is_not_known_is_asked_for():
    """The driver thinks that it was sent; a worker keeps only so many."""
    assert answer(request(8, program=None)) == Reply(8, None, unknown=True)


def test_what_cannot_be_done_is_a_failure():
    """The program, the specification: whatever was raised, and the trace for the log."""
    found = answer(request(9, program=b"no pickle"))
    assert found.attempt is None
    assert found.failure.code == "E-INTERNAL"
    assert "Traceback" in found.failure.trace
