"""A plan that cannot run is cut smaller: when, to what, and what that leaves of the protocol."""

from __future__ import annotations

import itertools
from dataclasses import replace

import msgspec
import pytest
from memory_store import MemoryStore
from protocol_fakes import FakeExecutor, fresh_state, make_actions, options

from atoll.microbatch import events as ev
from atoll.microbatch.commits.history import commit_objects, latest_commit, plan_objects
from atoll.microbatch.commits.objects import Plan, decode_commit, decode_plan, encode
from atoll.microbatch.commits.progress import pending_plan, with_starts
from atoll.microbatch.commits.tidy import drop_below, drop_orphans
from atoll.microbatch.coordinator import decide
from atoll.microbatch.epochs import claim_epoch
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure
from atoll.microbatch.plans.revisions import committed_plan, create_revision, revision_objects

BYTES_MAX = "depot__microbatch__max__bytes"
RECORDS_MAX = "depot__microbatch__max__records"


class Roomy(FakeExecutor):
    """Fails as it would without memory, or without time, for more records than it has room for."""

    def __init__(self, room, code="E-TOO-LARGE"):
        super().__init__()
        self.room = room
        self.code = code
        self.tried = []

    def run(self, plan, epoch, version, placement, timeout_seconds):
        """Note what was tried."""
        self.tried.append((plan.revision, plan.records))
        if plan.records > self.room:
            raise AttemptError(ActorFailure(self.code, "it did not fit"))
        return super().run(plan, epoch, version, placement, timeout_seconds)


class Life:
    """A coordinator of its own epoch on a store, taking one step after the other."""

    def __init__(self, store, depot, executor, **values):
        self.store, self.epoch = store, claim_epoch(store, "m")
        self.executor = executor
        given = options(**values)
        self.actions = make_actions(store, self.epoch, executor, depot, options=given)
        self.state = fresh_state(self.epoch, options=given)
        self.command = ev.Wait(0)

    def begin(self):
        """As a new life does: from the objects."""
        last = latest_commit(self.store, "m", "mb")
        self.decide(ev.Begin(pending_plan(self.store, "m", "mb", last)))

    def decide(self, event):
        """Take an event up."""
        self.state, self.command = decide(self.state, event)
        self.actions.options = self.state.options

    def go(self, until):
        """Work until such a command is next, or the topology has failed."""
        for _ in range(200):
            if isinstance(self.command, until) or self.state.condition == ev.Condition.FAILED:
                return self.command
            if isinstance(self.command, ev.Wait):
                idle = self.state.step == ev.Step.IDLE
                self.decide(self.actions.look(self.state.last) if idle else ev.Retry())
            else:
                self.decide(self.actions.perform(self.command))
        raise AssertionError(f"no {until} came")


def test_a_plan_takes_no_more_bytes_than_the_option_says(store, depot):
    """Records of 100 bytes, 250 of which fit into 25,000."""
    depot.end, depot.record_bytes = 1_000, 100
    life = Life(store, depot, FakeExecutor(), **{BYTES_MAX: 25_000})
    assert life.go(ev.RunAttempt).plan.ranges == {"d": [(0, 250)]}
    assert life.command.plan.behind == ["d/0"]


def test_what_does_not_fit_into_memory_is_cut_at_once_until_it_does(store, depot):
    """Each revision is a quarter of the one before; the commit says which it followed."""
    depot.end = 1_000
    life = Life(store, depot, Roomy(20))
    life.go(ev.Tidy)
    assert life.executor.tried == [(0, 1000), (1, 250), (2, 62), (3, 15)]
    commit = decode_commit(commit_objects(store, "m", "mb").read(1))
    assert (commit.ranges, commit.revision, commit.version) == ({"d": [(0, 15)]}, 3, 4)
    assert committed_plan(store, "m", "mb", commit).ranges == commit.ranges
    life.go(ev.CreatePlan)
    assert life.command.plan.ranges["d"][0][0] == 15


@pytest.mark.parametrize("code", ["E-PHASE-TIMEOUT", "E-WORKER-LOST", "E-SPARK-LOST"])
def test_what_may_have_been_a_chance_is_cut_when_it_happens_again(store, depot, code):
    """Two tries at each revision."""
    depot.end = 1_000
    life = Life(store, depot, Roomy(300, code))
    life.go(ev.Tidy)
    assert life.executor.tried == [(0, 1000), (0, 1000), (1, 250)]


def test_the_plans_after_a_cut_are_as_small_and_grow_while_they_run(store, depot):
    """To find the size anew for each would cost an attempt, or a phase timeout, each time."""
    depot.end = 1_000
    life = Life(store, depot, Roomy(250))
    sizes = []
    while sum(sizes) < 1_000:
        life.go(ev.CreateCommit)
        sizes.append(life.command.commit.records)
        life.go(ev.Tidy)
        life.decide(life.actions.perform(life.command))
    assert sizes[:2] == [250, 70], "282 did not fit"
    assert all(
        0 <= after - before <= before // 8 + 1 for before, after in itertools.pairwise(sizes[1:-1])
    )
    assert life.executor.tried[:4] == [(0, 1000), (1, 250), (0, 282), (1, 70)]
    assert len(life.executor.tried) == len(sizes) + 2


def test_other_failures_cut_nothing(store, depot):
    """A function that raises does so for fewer records, too: ten tries, then it has failed."""
    depot.end = 1_000
    life = Life(store, depot, Roomy(300, "E-USER-CODE"))
    life.go(ev.Tidy)
    assert life.state.condition == ev.Condition.FAILED
    assert life.executor.tried == [(0, 1000)] * 10
    assert revision_objects(store, "m", "mb").numbers() == []


def test_a_single_record_that_does_not_fit_fails_the_topology(store, depot):
    """Cutting ends there."""
    depot.end = 5
    life = Life(store, depot, Roomy(0))
    life.go(ev.Tidy)
    assert life.state.condition == ev.Condition.FAILED
    assert life.executor.tried == [(0, 5)] + [(1, 1)] * 10


@pytest.mark.parametrize("records", [0, 1])
def test_what_cannot_be_cut_any_more_fails_the_topology_although_ticks_count(store, depot, records):
    """A plan of ticks and a single record has several, and none of them can be left for later."""
    depot.end = records
    life = Life(store, depot, Roomy(0))
    ticks = {"seconds": 1_000, "minutes": 60_000}
    starts = {"d": [(0, 0)], "seconds": [(0, 0)], "minutes": [(0, 0)]}
    last = msgspec.structs.replace(life.state.last, ranges=starts)
    life.state = replace(life.state, last=last, ticks=ticks)
    life.actions.now_ms = lambda: 60_000
    life.go(ev.Tidy)
    assert life.state.condition == ev.Condition.FAILED
    assert life.executor.tried == [(0, records + 2)] * 10
    assert life.state.room == 0, "nothing was cut, so what follows is as it was"


@pytest.mark.parametrize("limit", [{BYTES_MAX: 300}, {RECORDS_MAX: 3}])
def test_a_lower_limit_takes_effect_on_the_plan_that_failed(store, depot, limit):
    """Set after it failed for a reason that cuts nothing; resuming is all there is to do."""
    depot.end, depot.record_bytes = 50, 100
    life = Life(store, depot, Roomy(3, "E-SPARK"), topology__microbatch__retry__max__attempts=2)
    life.go(ev.Tidy)
    assert life.state.condition == ev.Condition.FAILED
    life.decide(ev.SetOptions(options(**limit)))
    assert life.command == ev.Wait(None)
    life.decide(ev.Resume())
    life.go(ev.Tidy)
    assert life.executor.tried == [(0, 50), (0, 50), (1, 3)]
    assert decode_commit(commit_objects(store, "m", "mb").read(1)).ranges == {"d": [(0, 3)]}


def test_a_higher_limit_makes_a_plan_no_larger(store, depot):
    """Every attempt at the revision reads the same records."""
    depot.end, depot.record_bytes = 50, 100
    life = Life(store, depot, Roomy(2, "E-SPARK"), **{RECORDS_MAX: 5})
    life.go(ev.RunAttempt)
    life.decide(ev.AttemptFailed(ActorFailure("E-SPARK", "it broke")))
    life.decide(ev.SetOptions(options(**{RECORDS_MAX: 40})))
    assert life.go(ev.RunAttempt).plan.ranges == {"d": [(0, 5)]}
    assert life.command.plan.revision == 0


def test_a_new_life_follows_the_newest_revision(store, depot):
    """Whether it finds the plan when it begins or when it would make it."""
    depot.end = 1_000
    old = Life(store, depot, Roomy(20))
    old.go(ev.CutPlan)
    old.decide(old.actions.perform(old.command))
    new = Life(store, depot, Roomy(20))
    new.begin()
    assert new.go(ev.RunAttempt).plan.records == 250
    other = Life(store, depot, Roomy(20))
    assert other.go(ev.RunAttempt).plan.records == 250


def test_a_life_that_begins_with_a_plan_of_an_old_version_cuts_it_to_its_own_limits(store, depot):
    """The plan as it was written before there were revisions."""
    depot.end, depot.record_bytes = 1_000, 100
    old = msgspec.to_builtins(Plan(1, 1, 7, {"d": [(0, 1_000)]}, {}))
    del old["revision"]
    plan_objects(store, "m", "mb").create(1, msgspec.msgpack.encode(old))
    life = Life(store, depot, FakeExecutor(), **{BYTES_MAX: 5_000})
    life.begin()
    life.go(ev.Tidy)
    commit = decode_commit(commit_objects(store, "m", "mb").read(1))
    assert (commit.ranges, commit.revision) == ({"d": [(0, 50)]}, 1)


def test_of_two_coordinators_one_makes_the_revision_and_one_the_commit(store, depot):
    """A zombie that runs the whole plan commits it; the other one goes on from its end."""
    depot.end = 1_000
    zombie = Life(store, depot, Roomy(1_000))
    zombie.go(ev.RunAttempt)
    late = zombie.executor.run(zombie.state.plan, 1, 1, None, 1.0)
    new = Life(store, depot, Roomy(20))
    new.begin()
    new.go(ev.CreateCommit)
    assert new.command.commit.revision == 3
    zombie.state, create = decide(zombie.state, ev.AttemptSucceeded(late, 9))
    commit_objects(store, "m", "mb").create(1, encode(create.commit))
    new.go(ev.Tidy)
    assert new.state.last.ranges == {"d": [(0, 1_000)]}
    assert new.state.last.revision == 0
    other = create_revision(
        store, "m", "mb", msgspec.structs.replace(new.state.last and late_plan(store), revision=1)
    )
    assert other.records == 250, "the one that was there first"


def late_plan(store):
    """The plan as the zombie made it."""
    return decode_plan(plan_objects(store, "m", "mb").read(1))


def test_revisions_go_with_their_plan(store, depot):
    """Those that the commit names when it falls below the floor; others at the next start."""
    depot.end = 60
    life = Life(store, depot, Roomy(20), pstate__checkpoint__interval__commits=1)
    while latest_commit(store, "m", "mb").id < 3:
        life.go(ev.Tidy)
        life.decide(life.actions.perform(life.command))
    revisions = revision_objects(store, "m", "mb")
    assert revisions.numbers() == [1_000_001]  # the plans after it were small from the beginning
    last = msgspec.structs.replace(latest_commit(store, "m", "mb"), floor=2)
    drop_below(store, "m", "mb", 1, last)
    assert revisions.numbers() == []
    create_revision(store, "m", "mb", Plan(1, 9, 7, {"d": [(0, 1)]}, {}, revision=7))
    drop_orphans(store, "m", "mb", last)
    assert revisions.numbers() == []


class _Noting(Roomy):
    """Holds that attempts at a revision read the same records, and that none is at an old one."""

    def __init__(self, room, seen):
        super().__init__(room)
        self.seen = seen

    def run(self, plan, *others):
        """Compare with all attempts of all lives."""
        assert self.seen.setdefault((plan.id, plan.revision), plan.ranges) == plan.ranges
        assert plan.revision == max(r for number, r in self.seen if number == plan.id)
        return super().run(plan, *others)


class _Crash(BaseException):
    """The process dies here."""


class _Dying(MemoryStore):
    """Dies before or after its n-th operation that creates something; the objects stay."""

    def __init__(self):
        super().__init__()
        self.left = None
        self.after = False

    def create(self, name, data):
        """As in memory, unless it is time to die."""
        if self.left is not None:
            self.left -= 1
        if self.left == 0 and not self.after:
            raise _Crash
        super().create(name, data)
        if self.left == 0:
            raise _Crash


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", range(1, 12))
def test_killed_at_any_object_it_goes_on_without_a_gap(depot, nth, after):
    """Killed while plans, revisions and commits are made: each revision reads the same records."""
    store, tried, commits = _Dying(), {}, {}
    depot.end = 300

    def kept(commit):
        commits[commit.id] = commit

    def live():
        last = latest_commit(store, "m", "mb")
        kept(last)
        life = Life(store, depot, _Noting(60, tried))
        life.state = replace(life.state, last=with_starts(last, {"d": [0]}, ["d"]))
        life.actions.publish = kept
        life.begin()
        while commits[max(commits)].ends().get("d", [0]) != [depot.end]:
            life.go(ev.Tidy)
            life.decide(life.actions.perform(life.command))

    store.left, store.after = nth + 1, after  # the first is the life's own epoch
    with pytest.raises(_Crash):
        live()
    store.left = None
    live()
    end = 0
    for number in range(1, max(commits) + 1):
        commit = commits[number]
        ((start, stop),) = commit.ranges["d"]
        assert (start, commit.ranges) == (end, tried[number, commit.revision])
        end = stop
    assert end == depot.end
