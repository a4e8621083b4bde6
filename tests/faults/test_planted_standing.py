"""What holds standing tasks together bites: each of these defects is caught by a small hunter.

As in ``test_planted.py``. The hunters need no Spark: posts are real, their tasks threads.
"""

from __future__ import annotations

import contextlib
import hmac
import threading
import time
from types import SimpleNamespace

import msgspec
import pytest
from standing_fakes import (
    ATTEMPT,
    LONG,
    SECRET,
    Staff,
    as_one,
    come,
    listening,
    right,
    until,
)

from atoll.microbatch.executor import AttemptError
from atoll.spark.standing import jobs, wire
from atoll.spark.standing.jobs import StandingJob
from atoll.spark.standing.messages import Reply, Result
from atoll.spark.standing.post import Post
from atoll.spark.standing.turn import Turn
from atoll.spark.standing.wire import ImpostorError, Wire

# Hunters ------------------------------------------------------------------------------------------


def by_an_impostor(staff):
    """Somebody who does not know the secret comes to a post that waits for its task."""
    with listening(staff) as standing:
        for secret in (b"x" * len(SECRET), b"", SECRET[:-1] + b"?"):
            with contextlib.suppress(ImpostorError, EOFError, OSError):
                come(standing, secret=secret).waits_for_message(0.3)
            assert not staff.posts[0].manned, "an impostor mans the post"


def by_a_driver_that_is_none(staff):
    """A task comes to somebody who listens where its driver did, and gets an order from him."""
    with contextlib.ExitStack() as ends:
        his, task = (Wire(each) for each in staff.pair())
        ends.callback(his.close)
        ends.callback(task.close)
        his.send(b"c" * 32)
        his.send(b"d" * 32)
        with pytest.raises(ImpostorError):
            wire.prove(task, SECRET, b"hello")


def by_stale_tasks(staff):
    """Tasks of jobs that are over come late, and answer what a later one did not do."""
    post = staff.man(0, generation=2)
    job = staff.job({0: post})

    def stale(request, task):
        return as_one(request, token="stale")

    for generation in (0, 1):
        with contextlib.suppress(AssertionError):
            staff.man(0, stale, generation=generation, current=2, trial=9)
    (found,) = job.direct()
    assert found.token != "stale", "a task of an earlier generation answered"


def by_late_replies(staff):
    """A task answers what it was asked by the attempt before."""
    earlier = (*ATTEMPT[:2], ATTEMPT[2] - 1, ATTEMPT[3])

    def late(request, task):
        return as_one(request, attempt=earlier)

    def later(request, task):
        return as_one(request, number=request.number - 1)

    for number, answer in enumerate((late, later)):
        post = staff.man(number, answer)
        with pytest.raises(AttemptError):
            staff.job({number: post}).direct()


def by_hung_tasks(staff):
    """One task hangs until the time is over: when the attempt has failed, it runs no more."""
    working = threading.Event()
    working.set()

    def hang(request, task):
        while task.wire.waits_for_message(0.01) is False:
            pass
        working.clear()

    posts = {0: staff.man(0, hang), 1: staff.man(1)}
    with pytest.raises(AttemptError):
        staff.job(posts, seconds=0.2).direct()
    over = time.monotonic() + 0.3
    while working.is_set() and time.monotonic() < over:
        time.sleep(0.01)
    still = working.is_set()
    staff.tasks[0].die()
    assert not still, "a task of an attempt that is over is still at work"


def by_exchanged_units(staff):
    """Two posts, and each does the other one's unit."""
    posts = {number: staff.man(number, _of_the_other) for number in range(2)}
    with pytest.raises(AttemptError):
        staff.job(posts).direct()


def _of_the_other(request, task):
    return as_one(request, unit=lambda part: 1 - part)


def by_two_at_once(staff):
    """Two topologies want the same post: its task has answered one before the other asks."""
    overlapped = []

    def slowly(request, task):
        overlapped.append(task.wire.waits_for_message(0.2))
        return right(request)

    posts = {0: staff.man(0, slowly)}

    def run():
        with contextlib.suppress(AttemptError):
            staff.job(posts, seconds=3.0).direct()

    other = threading.Thread(target=run)
    other.start()
    until(lambda: staff.tasks[0].requests)
    run()
    other.join(LONG)
    assert overlapped == [False, False]


def by_silence(staff):
    """An actor answers without a manifest: what it was to write is not there."""
    post = staff.man(0, lambda request, _: as_one(request, results=[Result(0)]))
    with pytest.raises(AttemptError):
        staff.job({0: post}).direct()


def by_forgetfulness(staff):
    """A post of two units answers for one of them alone."""
    post = staff.man(0, lambda request, _: as_one(request, results=right(request).results[:1]))
    with pytest.raises(AttemptError):
        staff.job({0: post, 1: post}).direct()


def by_half_a_message(staff):
    """A task is stopped while a long request is on its way: another one must come."""
    post = staff.man(0, None)
    with pytest.raises(AttemptError):
        staff.job({0: post}, seconds=0.2).handed({0: [b"x" * 10_000_000]})
    assert staff.cancelled, "nobody ended it"
    assert not post.manned


# Defects ------------------------------------------------------------------------------------------


def _set(target, name, value):
    return lambda patch: patch.setattr(target, name, value)


def _believing(round_, post, connection, request):
    """Whatever comes is the reply."""
    return msgspec.msgpack.decode(connection.receive(round_._until()), type=Reply)


def _letting_in(post, about, connection):
    """Whoever knows the secret mans the post, however late."""
    post.wire, post.pid, post.programs = connection, about.pid, set()
    return True


def _unlooked(job, round_, blobs, work):
    """Each manifest counts for whichever unit it names."""
    units = {unit: job.posts[unit] for unit in sorted(job.program.units)}
    return [each.manifest for each in job._results(round_, work, units, blobs)]


def _uncounted(job, round_, work, parts, blobs):
    """Whatever a post tells of is all that it was asked for."""
    asked = jobs._asked(work, job.shipped, job.pickled, parts, blobs)
    return [each for reply in round_.replies(asked).values() for each in reply.results]


def _forgetting(post, connection, *, wait):
    """A task that does not answer is let alone."""
    post.wire = None


def _giving_up(post, connection, *, wait):
    """Its connection is cut, in the hope that it ends by itself."""


def _everybody(patch):
    patch.setattr(Turn, "take", lambda *_: True)
    patch.setattr(Turn, "give_back", lambda *_: None)


PLANTED = {
    by_an_impostor: {
        "the secret is not checked": _set(
            wire, "hmac", SimpleNamespace(compare_digest=lambda *_: True, digest=hmac.digest)
        ),
        "the digest is not of the secret": _set(wire, "_digest", lambda *_: b"d" * 32),
    },
    by_a_driver_that_is_none: {
        "a task believes its driver": _set(
            wire, "hmac", SimpleNamespace(compare_digest=lambda *_: True, digest=hmac.digest)
        ),
    },
    by_stale_tasks: {"a stale task is let in": _set(Post, "admit", _letting_in)},
    by_late_replies: {
        "numbers and attempts are not compared": _set(jobs._Round, "_reply", _believing)
    },
    by_hung_tasks: {
        "tasks are not ended after a timeout": _set(Post, "kill", _forgetting),
        "hung tasks are left to themselves": _set(Post, "kill", _giving_up),
    },
    by_exchanged_units: {
        "a unit is answered by another post's": _set(StandingJob, "_manifests", _unlooked)
    },
    by_two_at_once: {"everybody has the turn": _everybody},
    by_silence: {"no manifest passes for one": _set(StandingJob, "_manifests", _unlooked)},
    by_forgetfulness: {"parts are not compared": _set(StandingJob, "_results", _uncounted)},
    by_half_a_message: {"half a message is forgotten": _set(Post, "kill", Post.drop)},
}
DEFECTS = [
    pytest.param(hunter, plant, id=name.replace(" ", "-"))
    for hunter, plants in PLANTED.items()
    for name, plant in plants.items()
]


@pytest.fixture
def staff():
    """Posts whose tasks are threads."""
    made = Staff()
    yield made
    made.end()


@pytest.mark.parametrize("hunter", PLANTED)
def test_a_hunter_finds_nothing_in_sound_code(hunter, staff):
    """Otherwise it would prove nothing."""
    hunter(staff)


@pytest.mark.parametrize(("hunter", "plant"), DEFECTS)
def test_a_planted_defect_is_caught(hunter, plant, staff, monkeypatch):
    """What catches it may be an assertion or any error that escapes."""
    plant(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception)) as caught:
        hunter(staff)
    print(f"\nplanted, caught: {hunter.__name__}: {str(caught.value)[:120]}")
    monkeypatch.undo()
