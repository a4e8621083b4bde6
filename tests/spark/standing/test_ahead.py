"""Posts that read for an attempt that may come: asked beside it, never in its way."""

from __future__ import annotations

import msgspec
import pytest
from standing_fakes import ATTEMPT, LONG, Staff, numbers, right

from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure
from atoll.spark.standing.jobs import NotReadyError
from atoll.spark.standing.messages import Reply, Result, Work

FAILURE = ActorFailure("E-USER-CODE", "it went wrong")


@pytest.fixture
def staff():
    """Posts whose tasks end with the test; every turn was given back by then."""
    made = Staff()
    yield made
    assert made.turns_are_back()
    made.end()


def reads(request, _task):
    """What a task says that has read ahead."""
    return Reply(request.number, ATTEMPT, [Result(part.number) for part in request.parts])


@pytest.mark.parametrize(
    ("direct", "asked"),
    [(True, {0: [Work.DIRECT_AHEAD, [4]], 1: [Work.DIRECT_AHEAD, [9]]}),
     (False, {0: [Work.PACK_AHEAD, [0, 2]], 1: [Work.PACK_AHEAD, [1]]})],
)  # fmt: skip
def test_each_post_is_asked_for_what_the_attempt_will_ask_it(staff, direct, asked):
    """The same shares, or the same units, so that it finds them there."""
    posts = {4: staff.man(0, reads), 9: staff.man(1, reads)}
    staff.job(posts, source=(4, 9)).read_ahead(direct=direct)
    found = {
        n: [each.requests[0].work, numbers(each.requests[0])] for n, each in staff.tasks.items()
    }
    assert found == asked


def test_who_works_or_waits_goes_first(staff):
    """A post whose turn somebody has is not waited for."""
    posts = {0: staff.man(0, reads), 1: staff.man(1, reads)}
    assert posts[1].turn.take(LONG)
    with pytest.raises(NotReadyError):
        staff.job(posts).read_ahead(direct=True)
    posts[1].turn.give_back()
    assert staff.tasks[0].requests == staff.tasks[1].requests == []


def test_what_fails_there_fails_nothing(staff):
    """A user's function that raises: the attempt reads for itself, and tells it."""

    def fails(request, _task):
        told = [Result(part.number, failure=FAILURE) for part in request.parts]
        return Reply(request.number, ATTEMPT, told)

    posts = {0: staff.man(0, fails)}
    staff.job(posts).read_ahead(direct=False)
    assert posts[0].is_ready()


def test_a_task_that_is_lost_while_it_reads(staff):
    """Its post says so; the next attempt finds the next task, or goes another way."""
    posts = {0: staff.man(0, lambda _request, task: task.die())}
    with pytest.raises(AttemptError):
        staff.job(posts).read_ahead(direct=True)
    assert not posts[0].manned


def test_one_that_hangs_is_killed_when_the_time_is_over(staff):
    """As in an attempt."""
    posts = {0: staff.man(0, lambda *_: None)}
    with pytest.raises(AttemptError):
        staff.job(posts, seconds=0.05).read_ahead(direct=True)
    assert staff.tasks[0].killed.is_set()


@pytest.mark.parametrize("ahead", [True, False])
def test_a_job_knows_whether_its_rows_were_read_before(staff, ahead):
    """What one of the posts says."""

    def said(request, task):
        found = right(request, task)
        told = [msgspec.structs.replace(each, ahead=ahead) for each in found.results]
        return msgspec.structs.replace(found, results=told)

    job = staff.job({0: staff.man(0), 1: staff.man(1, said)})
    job.direct()
    assert job.ahead == ahead
