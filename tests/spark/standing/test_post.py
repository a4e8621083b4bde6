"""A post is always manned anew, by one task at a time: the latest one, on its own host."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace

import pytest
from standing_fakes import LONG, Staff, hello, until

from atoll.spark.standing import post as posts
from atoll.spark.standing.post import Post
from atoll.spark.standing.slots import HERE
from atoll.spark.standing.wire import Wire


class Spark:
    """Runs a post's jobs: each until it is let go, cancelled or made to fail."""

    def __init__(self):
        self.jobs: list[threading.Event] = []
        self.generations: list[int] = []
        self.errors: list[Exception | None] = []
        self.began: list[float] = []
        self.tags: set[str] = set()
        self.cancelled: list[str] = []
        context = SimpleNamespace(
            addJobTag=self.tags.add,
            removeJobTag=self.tags.remove,
            setJobDescription=lambda _: None,
            cancelJobsWithTag=self._cancel,
            _jsc=object(),
            _gateway=SimpleNamespace(proc=None),
        )
        self.session = SimpleNamespace(sparkContext=context)

    def frame(self):
        """The frame of a job."""
        return SimpleNamespace(mapInArrow=self._mapped)

    def _mapped(self, generation, schema):
        return SimpleNamespace(collect=lambda: self._run(generation))

    def _run(self, generation):
        over = threading.Event()
        self.generations.append(generation)
        self.began.append(time.monotonic())
        self.errors.append(None)
        self.jobs.append(over)
        assert over.wait(LONG)
        error = self.errors[generation - 1]
        if error is not None:
            raise error

    def _cancel(self, tag):
        self.cancelled.append(tag)
        for each in self.jobs:
            each.set()

    def fail(self, error):
        """The job that runs fails."""
        self.errors[-1] = error
        self.jobs[-1].set()

    def runs(self, generation):
        """Return when the job of that generation runs."""
        until(lambda: len(self.jobs) == generation, f"job {generation}")


@pytest.fixture
def spark(monkeypatch):
    """With short delays."""
    monkeypatch.setattr(posts, "_DELAY_SECONDS", 0.01)
    return Spark()


@pytest.fixture
def post(spark):
    """A post that is being manned; its Spark task is its generation."""
    made = Post((HERE, 2), spark.session, spark.frame, lambda number: number, lambda *_: True)
    made.begin()
    spark.runs(1)
    yield made
    made.end()
    for each in spark.jobs:
        each.set()
    assert made.await_end(LONG)
    assert not spark.tags


@pytest.fixture
def connect():
    """Makes connections: the driver's end and the task's."""
    made = []

    def make():
        made.extend(Wire(each) for each in socket.socketpair())
        return made[-2:]

    yield make
    for each in made:
        each.close()


def is_over(wire):
    """Whether the other end let go."""
    with pytest.raises((EOFError, OSError)):
        wire.receive(time.monotonic() + LONG)
    return True


def test_one_task_follows_the_other(spark, post):
    """Whatever ended the one before; each is counted, and the next one has the next number."""
    spark.fail(RuntimeError("a worker died\nwith a long trace"))
    spark.runs(2)
    spark.fail(RuntimeError(""))
    spark.runs(3)
    spark.jobs[-1].set()
    spark.runs(4)
    assert spark.generations == [1, 2, 3, 4]
    assert post.lost == 3


def test_who_fails_at_once_is_followed_later_and_later(spark, post):
    """So that what cannot work does not keep Spark busy."""
    for number in range(1, 6):
        spark.runs(number)
        spark.fail(RuntimeError("at once"))
    spark.runs(6)
    pauses = [after - before for before, after in zip(spark.began, spark.began[1:], strict=False)]
    assert pauses[-1] >= 0.01 * 2**4
    assert sum(pauses) >= 0.01 * (2**5 - 1)


def test_who_stood_for_long_is_followed_at_once(spark, post, monkeypatch):
    """The delay begins anew."""
    monkeypatch.setattr(posts, "_STOOD_SECONDS", 0.0)
    monkeypatch.setattr(posts, "_DELAY_SECONDS_MAX", 60.0)
    for number in range(1, 20):
        spark.runs(number)
        spark.fail(RuntimeError("after long"))
    spark.runs(20)


def test_a_task_is_let_in(post, connect):
    """Once; then the post is manned, and whoever waits for it goes on."""
    driver, _ = connect()
    assert not post.await_ready(0)
    waiting = threading.Thread(target=post.await_ready, args=(LONG,))
    waiting.start()
    assert post.admit(hello(2, generation=1), driver)
    waiting.join(LONG)
    assert post.manned
    assert post.is_ready()
    assert post.pid == hello(2).pid


def test_an_earlier_generation_is_refused(spark, post, connect):
    """Its Spark job is over, so whoever comes is late; the one that stands stays."""
    spark.fail(RuntimeError("gone"))
    spark.runs(2)
    late, _ = connect()
    assert not post.admit(hello(2, generation=1, trial=7), late)
    driver, _ = connect()
    assert post.admit(hello(2, generation=2), driver)
    assert not post.admit(hello(2, generation=1, trial=8), late)
    assert not post.admit(hello(2, generation=3), late), "of a job that was not begun"
    assert post.wire is driver


def test_a_task_that_spark_starts_twice(post, connect):
    """The later trial counts, whichever comes first: the other one is let go."""
    (first, at_first), (second, at_second) = connect(), connect()
    assert post.admit(hello(2, generation=1, trial=0), first)
    post.programs.add("digest")
    assert post.admit(hello(2, generation=1, trial=1), second)
    assert is_over(at_first)
    assert post.wire is second
    assert not post.programs, "it was given none yet"
    for trial in (0, 1):
        assert not post.admit(hello(2, generation=1, trial=trial), first)
    assert post.wire is second
    post.wire.send(b"work")
    assert at_second.receive() == b"work"


def test_a_task_on_another_host_is_ended(spark, connect):
    """Spark placed it elsewhere: it would not meet its stores."""
    asked = []

    def is_at(tag, host):
        asked.append((tag, host))
        return False

    made = Post(("there", 2), spark.session, spark.frame, lambda number: number, is_at)
    made.begin()
    spark.runs(1)
    assert not made.admit(hello(2, generation=1), connect()[0])
    assert not made.manned
    ((tag, host),) = asked
    assert (spark.cancelled, host) == ([tag], "there")
    spark.runs(2)
    made.end()
    assert made.await_end(LONG)


def test_a_task_that_is_gone_is_noticed(spark, post, connect):
    """By whoever is about to use it; the next one is let in."""
    driver, task = connect()
    assert post.admit(hello(2, generation=1), driver)
    task.close()
    assert not post.is_ready()
    assert not post.manned
    spark.fail(RuntimeError("gone"))
    spark.runs(2)
    assert post.admit(hello(2, generation=2), connect()[0])
    assert post.is_ready()


def test_a_connection_that_was_replaced_is_dropped_alone(post, connect):
    """Whoever still holds the first one does the second no harm."""
    (first, _), (second, _) = connect(), connect()
    assert post.admit(hello(2, generation=1, trial=0), first)
    assert post.admit(hello(2, generation=1, trial=1), second)
    post.drop(first)
    post.kill(first, wait=True)
    assert post.wire is second
    assert post.is_ready()


def test_killing(spark, post, connect):
    """Spark is asked to; nobody is sent to the dying task, and the next one follows."""
    driver, task = connect()
    assert post.admit(hello(2, generation=1), driver)
    threading.Thread(target=lambda: (spark.jobs[0].wait(LONG), task.sever())).start()
    post.kill(driver, wait=True)
    assert spark.cancelled == [post._tag(1)]
    assert not post.manned
    spark.runs(2)
    assert post.lost == 1


def test_a_task_that_does_not_die(post, connect, monkeypatch):
    """It is waited for only so long; its connection is of no use to it any more."""
    monkeypatch.setattr(posts, "_KILLED_SECONDS_MAX", 0.1)
    driver, task = connect()
    assert post.admit(hello(2, generation=1), driver)
    post.kill(driver, wait=True)
    assert is_over(task)


def test_the_end_of_a_post(spark, post, connect):
    """Its task is let go, and nobody follows or is let in."""
    driver, task = connect()
    assert post.admit(hello(2, generation=1), driver)
    post.end()
    assert is_over(task)
    spark.jobs[-1].set()
    assert post.await_end(LONG)
    assert len(spark.jobs) == 1
    assert not post.admit(hello(2, generation=1, trial=1), connect()[0])


def test_a_post_retires_when_the_work_is_done(spark, post, connect):
    """Whoever has the turn keeps its task; whoever waits for the turn finds nobody."""
    driver, task = connect()
    assert post.admit(hello(2, generation=1), driver)
    assert post.turn.take(0)
    retiring = threading.Thread(target=post.retire)
    retiring.start()
    until(lambda: len(post.turn._queue) == 1)
    assert not post.ended.is_set()
    assert post.is_ready()
    post.turn.give_back()
    retiring.join(LONG)
    assert is_over(task)
    assert post.turn.take(0)
    assert not post.is_ready()
    post.turn.give_back()
    spark.jobs[-1].set()
    assert post.await_end(LONG)
    post.retire()


def test_the_end_of_a_post_where_nobody_came(spark, post):
    """Its Spark job is cancelled."""
    post.end()
    assert post.await_end(LONG)
    assert spark.cancelled == [post._tag(1)]
    assert len(spark.jobs) == 1


def test_spark_is_gone(spark, post):
    """Nobody follows: another session has other posts."""
    spark.session.sparkContext._jsc = None
    spark.fail(ConnectionRefusedError("no JVM"))
    assert post.await_end(LONG)
    assert len(spark.jobs) == 1


@pytest.mark.parametrize(("host", "shown"), [(HERE, "post 3"), ("10.0.0.7", "post 3 on 10.0.0.7")])
def test_a_post_says_where_it_is(host, shown):
    """In errors and logs."""
    assert repr(Post((host, 3), Staff().session, None, None, None)) == shown
