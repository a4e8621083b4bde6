"""Posts without Spark: real ones, whose tasks are threads at the other ends of socket pairs.

A thread answers each request by a function. Where Spark would kill a task, its end is closed and
the killing is noted.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from types import SimpleNamespace

import msgspec

from atoll.microbatch.outcome import Manifest
from atoll.spark.limit import JobLimit
from atoll.spark.shipping import Shipped
from atoll.spark.standing.jobs import StandingJob
from atoll.spark.standing.messages import Hello, Reply, Request, Work
from atoll.spark.standing.post import Post
from atoll.spark.standing.slots import HERE
from atoll.spark.standing.wire import Wire
from atoll.tasks.handing_over import attempt_of
from atoll.tasks.program import JobSpec

LONG = 30.0
SPEC = JobSpec(epoch=3, id=17, version=2, job=0, committed=16, splits=((), (), ()))
ATTEMPT = attempt_of(SPEC)
SHIPPED = Shipped("digest", b"program")


def until(done, what="it"):
    """Wait for a condition."""
    over = time.monotonic() + LONG
    while not done():
        assert time.monotonic() < over, f"{what} did not come about"
        time.sleep(0.002)


def right(request, *, packed=lambda part: [(part % 2, b"blob %d" % part)]):
    """The reply that a sound task gives."""
    if request.work == Work.PACK:
        return Reply(request.number, ATTEMPT, blobs=packed(request.part))
    return Reply(request.number, ATTEMPT, manifest=Manifest(f"{request.number}", request.part))


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


class Staff:
    """Posts with their tasks, and what Spark was asked to kill."""

    def __init__(self):
        self.tasks: dict[int, FakeTask] = {}
        self.posts: dict[int, Post] = {}
        self.cancelled: list[str] = []
        self.deaf = False
        """Whether what is killed does not die."""
        context = SimpleNamespace(cancelJobsWithTag=self._cancel)
        self.session = SimpleNamespace(sparkContext=context)

    def _cancel(self, tag):
        self.cancelled.append(tag)
        for number, post in self.posts.items():
            if tag == post._tag(post._generation) and not self.deaf:
                self.tasks[number].killed.set()
                self.tasks[number].die()

    def man(self, number, answer=lambda request, task: right(request), trial=0):
        """A post with a task that answers so; a later trial takes the place of the one before."""
        if number not in self.posts:
            self.posts[number] = Post(
                (HERE, number), self.session, lambda: None, lambda _: None, lambda *_: True
            )
        task = FakeTask(answer)
        before, self.tasks[number] = self.tasks.get(number), task
        assert self.posts[number].admit(hello(number, trial=trial), task.driver)
        if before is not None:
            before.end()
        return self.posts[number]

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
        for each in self.tasks.values():
            each.end()


def hello(number, *, generation=0, trial=0):
    """What the task of a post says of itself."""
    return Hello(HERE, number, generation, trial, os.getpid())
