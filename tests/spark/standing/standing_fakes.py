"""Posts without Spark: real ones, whose tasks are threads at the other ends of socket pairs.

A thread answers each request by a function. Where Spark would kill a task, its end is closed and
the killing is noted.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from types import SimpleNamespace

import msgspec

from atoll.engine.exchange.waybills import attempt_of
from atoll.engine.program import JobSpec
from atoll.microbatch.outcome import Manifest
from atoll.spark.jobs.limit import JobLimit
from atoll.spark.shipping import Shipped
from atoll.spark.standing.jobs import StandingJob
from atoll.spark.standing.messages import Hello, Reply, Request, Result, Work
from atoll.spark.standing.post import Post
from atoll.spark.standing.slots import HERE
from atoll.spark.standing.tasks import StandingTasks
from atoll.spark.standing.wire import Wire, prove

LONG = 30.0
SECRET = b"s" * 32
SPEC = JobSpec(epoch=3, id=17, version=2, job=0, committed=16, splits=((), (), ()))
ATTEMPT = attempt_of(SPEC)
SHIPPED = Shipped("digest", b"program")


def until(done, what="it"):
    """Wait for a condition."""
    over = time.monotonic() + LONG
    while not done():
        assert time.monotonic() < over, f"{what} did not come about"
        time.sleep(0.002)


def right(request, task=None, *, packed=lambda part: [(part % 2, b"blob %d" % part)]):
    """The reply that a sound task gives."""

    def result(part):
        if request.work == Work.PACK:
            return Result(part.number, blobs=packed(part.number))
        return Result(part.number, manifest=Manifest(f"{request.number}", part.number))

    return Reply(request.number, ATTEMPT, [result(part) for part in request.parts])


def as_one(request, **changed):
    """The reply of a sound task, but for what is changed of it or of the manifests in it."""
    found = right(request)
    of_manifest = {name: changed.pop(name) for name in ("token", "unit") if name in changed}
    results = [
        msgspec.structs.replace(
            each,
            manifest=msgspec.structs.replace(
                each.manifest,
                **{k: v(each.part) if callable(v) else v for k, v in of_manifest.items()},
            ),
        )
        if each.manifest
        else each
        for each in found.results
    ]
    return msgspec.structs.replace(found, **{"results": results, **changed})


def numbers(request):
    """Which parts it asks for."""
    return [part.number for part in request.parts]


class FakeTask:
    """One end of a connection, and the thread that answers there.

    Args:
        answer: Gives for a request and this task a reply, bytes to be sent as they are, or None
            for no answer at all; None for a task that is stopped, and takes no request.
    """

    def __init__(self, answer):
        mine, theirs = socket.socketpair()
        self.driver = Wire(mine)
        self.wire = Wire(theirs)
        self.answer = answer
        self.requests: list[Request] = []
        self.killed = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        if answer is not None:
            self.thread.start()

    def _run(self):
        decoder = msgspec.msgpack.Decoder(Request)
        while True:
            try:
                request = decoder.decode(self.wire.receive())
                self.requests.append(request)
                said = self.answer(request, self)
                if isinstance(said, bytes):
                    self.wire._socket.sendall(said)
                elif said is not None:
                    self.wire.send(msgspec.msgpack.encode(said))
            except (EOFError, OSError):
                return

    def die(self):
        """As a process that is gone: nothing more comes."""
        self.wire.sever()

    def end(self):
        """After a test."""
        self.driver.sever()
        if self.answer is not None:
            self.thread.join(LONG)
        self.driver.close()
        self.wire.close()


class _Session:
    """As much of a Spark session as posts ask for."""

    def __init__(self, **context):
        self.sparkContext = SimpleNamespace(**context)


class Staff:
    """Posts with their tasks, and what Spark was asked to kill."""

    def __init__(self):
        self.tasks: dict[int, FakeTask] = {}
        self.came: list[FakeTask] = []
        self.posts: dict[int, Post] = {}
        self.cancelled: list[str] = []
        self.deaf = False
        """Whether what is killed does not die."""
        self.session = _Session(
            cancelJobsWithTag=self._cancel,
            getConf=dict,
            _jsc=object(),
            _gateway=SimpleNamespace(proc=None),
        )

    def _cancel(self, tag):
        self.cancelled.append(tag)
        for number, post in self.posts.items():
            if tag == post._tag(post._generation) and not self.deaf:
                self.tasks[number].killed.set()
                self.tasks[number].die()

    def post(self, number, generation=0):
        """A post where nobody stands; it is never begun, so its generation stays."""
        if number not in self.posts:
            post = Post((HERE, number), self.session, None, None, lambda *_: True)
            post._generation = generation
            post.await_end = lambda _: True
            self.posts[number] = post
        return self.posts[number]

    def man(self, number, answer=right, *, trial=0, generation=0, current=None):
        """A post with a task that answers so; a later trial takes the place of the one before.

        Args:
            number: Of the post.
            answer: As a :class:`FakeTask` takes it.
            trial: Which trial of Spark's the task is.
            generation: Of the task.
            current: The post's; by default the task's.
        """
        post = self.post(number, generation if current is None else current)
        task = FakeTask(answer)
        self.came.append(task)
        assert post.admit(hello(number, generation=generation, trial=trial), task.driver)
        self.tasks[number] = task
        return post

    @staticmethod
    def pair():
        """Both ends of a connection."""
        return socket.socketpair()

    def job(self, posts, *, seconds=LONG, spec=SPEC, source=(0,), shipped=SHIPPED):
        """A job of units on the posts given."""
        program = SimpleNamespace(units=tuple(posts), placement=SimpleNamespace(source=source))
        limit = JobLimit(self.session, seconds)
        return StandingJob(posts, program, shipped, spec, limit)

    def turns_are_back(self):
        """Whether nobody has a turn of any post."""
        return all(not each.turn._taken and not each.turn._queue for each in self.posts.values())

    def end(self):
        """After a test."""
        for each in self.came:
            each.end()


def hello(number, *, generation=0, trial=0):
    """What the task of a post says of itself."""
    return Hello(HERE, number, generation, trial, os.getpid())


@contextlib.contextmanager
def listening(staff):
    """Standing tasks that listen, without Spark; post 0 waits for its task."""
    made = StandingTasks(staff.session, seated=False)
    made._look = lambda: None
    made.visitors = []
    made._secret = SECRET
    made._posts[HERE, 0] = staff.post(0)
    with made._lock:
        made._listen()
    try:
        yield made
    finally:
        made.close()
        for each in made.visitors:
            each.close()


def connected(standing):
    """A connection to where the tasks come."""
    made = Wire(socket.socket(socket.AF_UNIX))
    standing.visitors.append(made)
    made._socket.connect(standing._address)
    return made


def come(standing, secret=None, about=None):
    """Prove oneself as a task would; the connection, after the driver let in or go."""
    wire = connected(standing)
    told = about if isinstance(about, bytes) else msgspec.msgpack.encode(about or hello(0))
    prove(wire, secret if secret is not None else standing._secret, told)
    return wire


def let_go(wire):
    """Return when the driver hangs up."""
    try:
        wire.receive(time.monotonic() + LONG)
    except TimeoutError:
        raise AssertionError("the driver still listens") from None
    except (EOFError, OSError):
        return True
    raise AssertionError("the driver said something")
