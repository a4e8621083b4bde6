"""Jobs of attempts on posts: with all manifests, or a failure, and never with anybody else's."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest
from standing_fakes import (
    ATTEMPT,
    LONG,
    SHIPPED,
    Staff,
    as_one,
    numbers,
    right,
    until,
)

from atoll.microbatch.commits.objects import GENESIS
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure, Manifest
from atoll.spark.jobs.limit import JobLimit
from atoll.spark.shipping import Shipped
from atoll.spark.standing import jobs
from atoll.spark.standing.jobs import NotReadyError, warm
from atoll.spark.standing.messages import Part, Reply, Result, Warming, Work
from atoll.spark.standing.wire import header_of

FAILURE = ActorFailure("E-SOMETHING", "it went wrong")


@pytest.fixture
def staff():
    """Posts whose tasks end with the test; every turn was given back by then."""
    made = Staff()
    yield made
    assert made.turns_are_back()
    made.end()


def failed(run, code):
    """Run what fails with that code; the failure."""
    with pytest.raises(AttemptError) as caught:
        run()
    assert caught.value.failure.code == code, caught.value.failure
    return caught.value.failure


# What comes of it ---------------------------------------------------------------------------------


def test_the_manifests_of_all_units(staff):
    """In the order of the units, whoever answers first; each was asked for its own."""

    def slowly(request, task):
        until(lambda: len(staff.tasks[1].requests) == 1)
        return right(request)

    posts = {4: staff.man(0, slowly), 9: staff.man(1)}
    found = staff.job(posts).direct()
    assert [each.unit for each in found] == [4, 9]
    for number, unit in ((0, 4), (1, 9)):
        (request,) = staff.tasks[number].requests
        assert (request.work, numbers(request)) == (Work.DIRECT, [unit])
        assert request.program == SHIPPED.data


def test_several_units_on_one_post(staff):
    """It is asked once, for all of them; the manifests come in the order of the units."""
    shared = staff.man(0)
    found = staff.job({1: shared, 2: shared, 3: staff.man(1), 5: shared}).direct()
    assert [each.unit for each in found] == [1, 2, 3, 5]
    assert [numbers(each) for each in staff.tasks[0].requests] == [[1, 2, 5]]


def test_rows_are_packed_where_they_are_read(staff):
    """Each share by the posts that read, in turn; each actor gets what is for it, in order."""
    posts = {0: staff.man(0), 1: staff.man(1)}
    found = staff.job(posts, source=(1, 0)).packed()
    assert [each.unit for each in found] == [0, 1]
    packed = {
        number: [numbers(each) for each in task.requests if each.work == Work.PACK]
        for number, task in staff.tasks.items()
    }
    assert packed == {1: [[0, 2]], 0: [[1]]}
    blobs = {
        part.number: part.blobs
        for task in staff.tasks.values()
        for each in task.requests
        if each.work == Work.ACT
        for part in each.parts
    }
    assert blobs == {0: [b"blob 0", b"blob 2"], 1: [b"blob 1"]}


def test_what_others_packed_is_handed_on(staff):
    """An actor for which nothing came is asked all the same: it says that nothing did."""
    posts = {0: staff.man(0), 1: staff.man(1)}
    big = b"x" * 3_000_000
    found = staff.job(posts).handed({1: [big, b""]})
    assert [each.unit for each in found] == [0, 1]
    assert staff.tasks[0].requests[0].parts == [Part(0)]
    assert staff.tasks[1].requests[0].parts == [Part(1, [big, b""])]


def test_a_program_is_sent_once(staff):
    """To each task; a changed one again; to the next task of the post again."""
    posts = {0: staff.man(0)}
    for _ in range(2):
        staff.job(posts).direct()
    staff.job(posts, shipped=Shipped("other", b"other")).direct()
    sent = [each.program for each in staff.tasks[0].requests]
    assert sent == [SHIPPED.data, None, b"other"]
    staff.man(0, trial=1)
    staff.job(posts).direct()
    assert [each.program for each in staff.tasks[0].requests] == [SHIPPED.data]


def test_a_forgotten_program_is_sent_again(staff):
    """A task keeps only so many; the same request comes once more, with it."""

    def forgetful(request, task):
        if request.program is None:
            return Reply(request.number, None, unknown=True)
        return right(request)

    posts = {0: staff.man(0, forgetful), 1: staff.man(1)}
    for _ in range(3):
        assert [each.unit for each in staff.job(posts).direct()] == [0, 1]
    assert [each.program for each in staff.tasks[0].requests][-2:] == [None, SHIPPED.data]


def test_numbers_rise_over_all_jobs(staff):
    """So that no reply is ever taken for that of another request."""
    posts = {0: staff.man(0), 1: staff.man(1)}
    for _ in range(3):
        staff.job(posts).packed()
    given = [each.number for task in staff.tasks.values() for each in task.requests]
    assert len(set(given)) == len(given)


# What is not believed -----------------------------------------------------------------------------


def wrong_number(request, task):
    """The reply to the request before."""
    return as_one(request, number=request.number - 1)


def wrong_attempt(request, task):
    """The reply of an attempt that is over."""
    epoch, microbatch, version, job = ATTEMPT
    stale = epoch, microbatch, version - 1, job
    return as_one(request, attempt=stale)


def wrong_unit(request, task):
    """The manifest of an actor that was not asked."""
    return as_one(request, unit=lambda part: part + 1)


def wrong_part(request, task):
    """A result of something that was not asked for."""
    return as_one(request, results=[Result(7, manifest=Manifest("seven", 7))])


def nothing_at_all(request, task):
    """Neither a manifest nor a failure: rows of which nobody says what became."""
    return as_one(request, results=[Result(part) for part in numbers(request)])


def one_too_few(request, task):
    """The first parts alone."""
    return as_one(request, results=right(request).results[:-1])


def one_twice(request, task):
    """Which of the two would count?"""
    found = right(request).results
    return as_one(request, results=[*found, found[0]])


@pytest.mark.parametrize(
    "answer",
    [
        wrong_number,
        wrong_attempt,
        wrong_unit,
        wrong_part,
        nothing_at_all,
        one_too_few,
        one_twice,
    ],
)
def test_a_reply_to_something_else(staff, answer):
    """The attempt fails, though it looks like a success."""
    posts = {0: staff.man(0), 1: staff.man(1, answer)}
    failed(staff.job(posts).direct, "E-ACCOUNTS")


@pytest.mark.parametrize("answer", [wrong_number, wrong_attempt])
def test_who_answers_something_else_is_not_asked_again(staff, answer):
    """It is out of step for good: another task is to come."""
    posts = {0: staff.man(0, answer)}
    failed(staff.job(posts).direct, "E-ACCOUNTS")
    with pytest.raises(NotReadyError):
        staff.job(posts).direct()
    staff.man(0, trial=1)
    assert staff.job(posts).direct()


def test_a_packed_reply_of_another_attempt(staff):
    """Not only manifests are looked at."""

    def stale(request, task):
        return as_one(request, attempt=None)

    failed(staff.job({0: staff.man(0, stale)}).packed, "E-ACCOUNTS")


def test_words_that_are_no_reply(staff):
    """Not MessagePack, or none of a reply's: the task is given up."""
    garbage = header_of(3) + b"\xc1\xc1\xc1"
    posts = {0: staff.man(0, lambda *_: garbage)}
    failed(staff.job(posts).direct, "E-WORKER-LOST")
    assert not posts[0].manned


# What goes wrong ----------------------------------------------------------------------------------


def test_a_failure_is_one_of_the_manifests(staff):
    """The other actors have answered too when the attempt fails: none runs any more."""

    def failing(request, task):
        first, *others = right(request).results
        return as_one(request, results=[Result(first.part, failure=FAILURE), *others])

    first = staff.man(0, failing)
    posts = {0: first, 1: staff.man(1), 2: first}
    found = staff.job(posts).direct()
    assert [each.failure for each in found] == [FAILURE, None, None]
    assert staff.job(posts).direct(), "both are asked again"


def test_a_failure_before_the_attempt_was_read(staff):
    """What cannot even be unpickled is a failure of no attempt."""
    posts = {0: staff.man(0, lambda request, _: Reply(request.number, None, failure=FAILURE))}
    found = staff.job({**posts, 3: posts[0]}).direct()
    assert [(each.unit, each.failure) for each in found] == [(0, FAILURE), (3, FAILURE)]


def test_one_packing_task_fails(staff):
    """No actor is asked, once all that pack have answered; the same posts serve the next job."""

    def failing(request, task):
        if request.work == Work.PACK and 1 in numbers(request):
            return as_one(request, results=[Result(1, failure=FAILURE)])
        return right(request)

    posts = {0: staff.man(0, failing), 1: staff.man(1, failing)}
    assert failed(staff.job(posts, source=(0, 1)).packed, "E-SOMETHING") == FAILURE
    asked = [each.work for task in staff.tasks.values() for each in task.requests]
    assert asked == [Work.PACK] * 2
    assert staff.job(posts).direct()
    assert staff.cancelled == []


def half_a_reply(request, task):
    """Cut off in the middle."""
    task.wire._socket.sendall(header_of(100) + b"half")
    task.die()


def dying(request, task):
    """Killed while it works."""
    task.die()


@pytest.mark.parametrize("answer", [half_a_reply, dying])
def test_a_task_dies_at_work(staff, answer):
    """The attempt fails and says whose task it was; the one still at work gets a moment."""
    answered = threading.Event()

    def slowly(request, task):
        until(lambda: not posts[1].manned)
        answered.set()
        return right(request)

    posts = {0: staff.man(0, slowly), 1: staff.man(1, answer)}
    failure = failed(staff.job(posts).direct, "E-WORKER-LOST")
    assert "post 1" in failure.message
    assert answered.is_set()
    assert staff.cancelled == [], "it has answered in time"
    staff.man(1, trial=1)
    staff.tasks[0].answer = lambda request, _: right(request)
    assert [each.unit for each in staff.job(posts).direct()] == [0, 1]


def test_a_task_that_died_before_it_was_asked(staff):
    """Nothing is begun: the job may go another way."""
    posts = {0: staff.man(0), 1: staff.man(1)}
    staff.tasks[1].die()
    with pytest.raises(NotReadyError):
        staff.job(posts).direct()
    assert staff.tasks[0].requests == []
    assert not posts[1].manned


def test_a_task_that_spoke_unasked(staff):
    """Nobody knows to what that is the answer."""
    posts = {0: staff.man(0)}
    staff.tasks[0].wire.send(b"hello")
    with pytest.raises(NotReadyError):
        staff.job(posts).direct()


def silent(request, task):
    """As a task that hangs, or is stopped."""


def test_the_time_is_over(staff):
    """Who has not answered is killed, and is dead when the attempt is over; others stay."""
    posts = {0: staff.man(0), 1: staff.man(1, silent)}
    began = time.monotonic()
    failed(staff.job(posts, seconds=0.3).direct, "E-PHASE-TIMEOUT")
    assert time.monotonic() - began < 5
    assert staff.tasks[1].killed.is_set()
    assert not staff.tasks[0].killed.is_set()
    assert not posts[1].manned
    staff.man(1, trial=1)
    assert staff.job(posts).direct()


def test_an_answer_in_the_last_moment(staff):
    """A task that answers when the time is over lives, also beside one that does not."""

    def late(request, task):
        until(lambda: job.limit.expired)
        return right(request)

    posts = {0: staff.man(0, silent), 1: staff.man(1, late)}
    job = staff.job(posts, seconds=0.2)
    failed(job.direct, "E-PHASE-TIMEOUT")
    assert staff.tasks[0].killed.is_set()
    assert not staff.tasks[1].killed.is_set()
    assert posts[1].manned


def test_a_task_killed_late_is_waited_for(staff):
    """What it holds is free when the next attempt begins."""
    died = []

    def slow_death(tag):
        def die():
            time.sleep(0.3)
            died.append(time.monotonic())
            staff.tasks[0].die()

        threading.Thread(target=die).start()

    staff.session.sparkContext.cancelJobsWithTag = slow_death
    posts = {0: staff.man(0, silent)}
    failed(staff.job(posts, seconds=0.1).direct, "E-PHASE-TIMEOUT")
    assert died
    assert died[0] <= time.monotonic()


def test_what_a_dying_task_says_is_not_taken_for_its_end(staff):
    """A reply that comes after all, while it is being killed."""

    def last_words(tag):
        staff.tasks[0].wire.send(b"too late")
        staff.tasks[0].die()

    staff.session.sparkContext.cancelJobsWithTag = last_words
    posts = {0: staff.man(0, silent)}
    failed(staff.job(posts, seconds=0.1).direct, "E-PHASE-TIMEOUT")
    assert not posts[0].manned


def test_a_task_that_takes_nothing(staff):
    """Stopped before a long request was through: it is killed like one that does not answer."""
    posts = {0: staff.man(0, None)}
    big = {0: [b"x" * 20_000_000]}
    failed(lambda: staff.job(posts, seconds=0.3).handed(big), "E-PHASE-TIMEOUT")
    assert staff.cancelled, "nobody ended it"
    assert not posts[0].manned, "the next request would follow half of this one"


def test_a_task_that_takes_nothing_for_long(staff, monkeypatch):
    """The same where the attempt has time left: one message has less."""
    monkeypatch.setattr(jobs, "_MESSAGE_SECONDS_MAX", 0.2)
    posts = {0: staff.man(0, None)}
    big = {0: [b"x" * 20_000_000]}
    failed(lambda: staff.job(posts).handed(big), "E-WORKER-LOST")
    assert staff.cancelled, "nobody ended it"
    assert not posts[0].manned


@pytest.mark.parametrize("seconds", [0.3, LONG], ids=["no time", "time"])
def test_a_task_that_stops_in_the_middle_of_its_reply(staff, monkeypatch, seconds):
    """It is killed: its words are not read as if they were the beginning of others."""
    monkeypatch.setattr(jobs, "_MESSAGE_SECONDS_MAX", 0.4)

    def stopping(request, task):
        task.wire._socket.sendall(header_of(100) + b"\xff" * 50)
        time.sleep(0.45)
        return b"\xff" * 50

    posts = {0: staff.man(0, stopping)}
    code = "E-PHASE-TIMEOUT" if seconds < 1 else "E-WORKER-LOST"
    failed(staff.job(posts, seconds=seconds).direct, code)
    assert staff.cancelled, "nobody ended it"
    assert not posts[0].manned


def test_cancelled_by_another_thread(staff):
    """At once, and nobody waits for the death of what is killed."""
    staff.deaf = True
    posts = {0: staff.man(0, silent), 1: staff.man(1)}
    job = staff.job(posts)
    began = time.monotonic()

    def cancel():
        until(lambda: staff.tasks[0].requests)
        job.limit.cancel()

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    failed(job.direct, "E-CANCELLED")
    cancelling.join()
    assert time.monotonic() - began < 5
    assert len(staff.cancelled) == 1


def test_cancelled_before_it_begins(staff):
    """Nobody is asked."""
    job = staff.job({0: staff.man(0)})
    job.limit.cancel()
    failed(job.direct, "E-CANCELLED")
    assert staff.tasks[0].requests == []


# Who may use them ---------------------------------------------------------------------------------


def test_posts_that_others_use(staff, monkeypatch):
    """A job waits its turn for a moment; then it may go another way."""
    monkeypatch.setattr(jobs, "_TURN_SECONDS_MAX", 0.1)
    posts = {0: staff.man(0), 1: staff.man(1)}
    assert posts[1].turn.take(0)
    with pytest.raises(NotReadyError):
        staff.job(posts).direct()
    posts[1].turn.give_back()
    assert staff.job(posts).direct()


def test_many_jobs_at_once(staff):
    """Of many topologies, on overlapping posts: each gets its own replies, and none waits ever."""
    posts = {number: staff.man(number) for number in range(3)}
    wrong, done = [], []

    def topology(number):
        units = {0: (0, 1), 1: (1, 2), 2: (2, 0), 3: (0, 1, 2)}[number % 4]
        for _ in range(25):
            try:
                found = staff.job({unit: posts[unit] for unit in units}, source=units).packed()
            except NotReadyError:
                continue
            except Exception as error:  # noqa: BLE001 - told by the test's thread
                wrong.append(error)
                return
            if [each.unit for each in found] != sorted(units):
                wrong.append(found)
            done.append(number)

    for task in staff.tasks.values():
        task.answer = lambda request, _: right(request, packed=lambda part: [])
    threads = [threading.Thread(target=topology, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG)
        assert not each.is_alive()
    assert not wrong
    assert len(set(done)) == 6


def test_stores_are_warmed_unit_by_unit(staff):
    """Each on its post; what a task could not do fails it, and who is not there is not asked."""
    posts = {0: staff.man(0, warmed), 1: staff.man(1, warmed)}
    last = msgspec.structs.replace(GENESIS, id=5, timeline=2)
    warm(posts, SHIPPED, last, JobLimit(staff.session, LONG))
    assert [numbers(each) for task in staff.tasks.values() for each in task.requests] == [[0], [1]]
    told = [msgspec.msgpack.decode(each.spec, type=Warming) for each in staff.tasks[0].requests]
    assert told == [Warming(5, 2)]
    staff.tasks[1].answer = lambda request, _: Reply(request.number, None, failure=FAILURE)
    failed(lambda: warm(posts, SHIPPED, last, JobLimit(staff.session, LONG)), "E-SOMETHING")
    staff.tasks[1].die()
    with pytest.raises(NotReadyError):
        warm(posts, SHIPPED, last, JobLimit(staff.session, LONG))


def test_stores_are_warmed_in_shares(staff):
    """All of them in the end; in between, a job that waits has its turn."""
    turns = []

    def first_share(request, task):
        if not turns:
            turns.append("waits")
            job.start()
            until(lambda: len(posts[0].turn._queue) == 1)
        turns.append(request.work)
        return warmed(request, task) if request.work == Work.WARM else right(request)

    posts = {0: staff.man(0, first_share)}
    job = threading.Thread(target=lambda: staff.job(posts).direct())
    warm(posts, SHIPPED, GENESIS, JobLimit(staff.session, LONG), 3)
    job.join(LONG)
    assert turns == ["waits", Work.WARM, Work.DIRECT, Work.WARM, Work.WARM]
    asked = [each for each in staff.tasks[0].requests if each.work == Work.WARM]
    shares = [msgspec.msgpack.decode(each.spec, type=Warming).share for each in asked]
    assert shares == [(0, 3), (1, 3), (2, 3)]


def warmed(request, task):
    """What a task says that has warmed up."""
    assert request.work == Work.WARM
    return Reply(request.number, None)
