"""How far back the state stays readable: for a time and for a count, whatever the clock does."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol_fakes import fresh_state

from atoll.microbatch import events as ev
from atoll.microbatch.commits.horizon import NO_HEADS, Heads, horizon_of
from atoll.microbatch.commits.objects import GENESIS, Commit
from atoll.microbatch.control.options import Options
from atoll.microbatch.coordinator import decide
from atoll.microbatch.outcome import JobOutcome, Outcome


def options(seconds, microbatches=2):
    """As set by the user."""
    names = {"pstate.history.seconds": seconds, "pstate.history.microbatches": microbatches}
    return Options().with_values(names)


class Ticket:
    """Only its epoch is asked for."""

    number = 1


@dataclass
class Life:
    """Commits as a coordinator makes them, and when each ceased to be the last one."""

    options: Options
    state: ev.State = None
    now_ms: int = 1_000_000
    ended_ms: dict[int, int] = field(default_factory=dict)

    def __post_init__(self):
        """Nothing is committed."""
        self.state = fresh_state(Ticket, options=self.options)

    def commit(self, pinned=None, taking_ms=0):
        """The next one; readers see it when it is published, ``taking_ms`` after the attempt."""
        state, last = self.state, self.state.last
        woken = ev.Wake({"d": [0]}, {"d": [last.id + 1]}, 7)
        state, create = decide(state, woken)
        state, _ = decide(state, ev.PlanReady(create.plan))
        done = ev.AttemptSucceeded(Outcome([JobOutcome(0, [])]), 7, pinned, self.now_ms)
        state, create = decide(state, done)
        state, _ = decide(state, ev.CommitCreated(create.commit))
        self.now_ms += taking_ms
        self.ended_ms[last.id] = self.now_ms
        state, _ = decide(state, ev.Published(self.now_ms))
        self.state, _ = decide(state, ev.Tidied())
        return self.state.last

    def restart(self):
        """Another life, which knows what stands in the last commit."""
        self.state = fresh_state(Ticket, options=self.options, last=self.state.last)


def test_a_commit_stays_for_the_time_and_for_the_count():
    """100 commits a second for 12 s, and 10 s kept: not fewer than 1,000, few more."""
    life = Life(options(10))
    horizons = []
    for _ in range(1_200):
        life.now_ms += 10
        horizons.append(life.commit().horizon)
    assert horizons[:1_000] == [0] * 1_000
    assert 1_000 <= 1_200 - horizons[-1] <= 1_020
    slow = Life(options(10))
    for _ in range(8):
        slow.now_ms += 60_000
        slow.commit()
    assert 8 - 4 <= slow.state.last.horizon <= 8 - 2


def test_no_time_is_as_before():
    """Only the count says what stays then, from the first commit of a life on."""
    life = Life(options(0, microbatches=3))
    assert [life.commit().horizon for _ in range(7)] == [0, 0, 0, 1, 2, 3, 4]
    life.restart()
    assert life.commit().horizon == 5


def test_the_time_counts_from_when_a_commit_is_not_the_last_one_any_more():
    """After an hour of rest the commit that was the last one stays for as long as any other."""
    life = Life(options(10))
    for _ in range(5):
        life.now_ms += 20_000
        life.commit()
    life.now_ms += 3_600_000
    for _ in range(500):
        life.now_ms += 10
        assert life.commit().horizon <= 5
    for _ in range(600):
        life.now_ms += 10
        life.commit()
    assert life.state.last.horizon > 5


def test_a_new_life_keeps_what_it_finds_for_the_whole_time():
    """It does not know when it was committed."""
    life = Life(options(10))
    for _ in range(1_500):
        life.now_ms += 10
        life.commit()
    stood = life.state.last.horizon
    assert stood > 400
    life.restart()
    for _ in range(900):
        life.now_ms += 10
        assert life.commit().horizon == stood
    for _ in range(200):
        life.now_ms += 10
        life.commit()
    assert life.state.last.horizon >= 1_500


def test_a_clock_that_leaps_or_goes_back():
    """It drops no more than half of what is kept, and keeps nothing for ever."""
    life = Life(options(10))
    for _ in range(1_500):
        life.now_ms += 10
        life.commit()
    life.now_ms += 10**9
    assert life.commit().horizon <= 1_500 - 495
    life.now_ms -= 10**12
    for _ in range(1_200):
        life.now_ms += 10
        life.commit()
    assert 1_000 <= life.state.last.id - life.state.last.horizon <= 1_020


def test_memory_is_bounded():
    """An hour at 100 a second, an hour kept; then the option changes, over and over."""
    heads = NO_HEADS
    for number in range(1, 360_001, 4):
        heads = heads.followed_by(number, number * 10, 3_600_000)
    assert len(heads.noted) <= 102
    dice = random.Random(5)
    for number in range(360_001, 420_000):
        heads = heads.followed_by(number, number * 10, dice.choice([0, 1_000, 60_000, 3_600_000]))
        assert len(heads.noted) <= 600


def test_a_pin_holds_the_horizon_and_an_option_never_sets_it_back():
    """Lowering the options drops, raising them keeps what is there."""
    life = Life(options(0))
    for _ in range(20):
        life.commit()
    assert life.commit(pinned=18).horizon == 18
    for _ in range(5):
        assert life.commit(pinned=18).horizon == 18
    assert life.commit().horizon == 25
    life.state, _ = decide(life.state, ev.SetOptions(options(3_600, 1_000)))
    for _ in range(50):
        life.now_ms += 1_000
        assert life.commit().horizon == 25
    life.state, _ = decide(life.state, ev.SetOptions(options(1)))
    life.now_ms += 10_000
    assert life.commit().horizon > 60


def test_a_checkpoint_because_of_a_lost_file_gives_up_what_may_need_it():
    """What comes after it is kept for the whole time again; any other checkpoint gives up none."""
    heads = NO_HEADS.followed_by(3, 0, 10_000).followed_by(4, 3_000, 10_000).since_ever(5)
    assert heads.before(10_000) == 5
    later = heads.followed_by(6, 4_000, 10_000).followed_by(7, 8_000, 10_000)
    assert later.at(8_500, 10_000).before(10_000) == 5
    assert later.at(12_500, 10_000).at(16_500, 10_000).before(10_000) == 6


def test_a_rollback_forgets_the_commits_whose_ids_come_again():
    """Else the time of an abandoned commit would count for the one that got its id."""
    heads = Heads(((0, 3), (100, 6), (200, 9)), 200, 5)
    assert heads.upto(8).noted == ((0, 3), (100, 6))
    life = Life(options(10))
    for _ in range(300):
        life.now_ms += 10
        life.commit()
    back = msgspec.structs.replace(life.state.last, id=200, timeline=1)
    life.state, _ = decide(life.state, ev.RolledBack(back, life.state.checkpoints))
    life.state, _ = decide(life.state, ev.Resume())
    assert all(commit <= 200 for _, commit in life.state.heads.noted)


@settings(max_examples=150, deadline=None)
@given(
    seconds=st.sampled_from([0, 1, 2, 30]),
    microbatches=st.integers(2, 6),
    steps=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 7, 40, 300, 5_000, 60_000]),
            st.sampled_from(["commit"] * 6 + ["slow", "restart", "options"]),
            st.integers(0, 3),
        ),
        max_size=60,
    ),
)
def test_whatever_happens_what_was_the_last_commit_lately_is_readable(seconds, microbatches, steps):
    """Any pace, restarts and other options: the time and the count hold, and nothing goes back."""
    life = Life(options(seconds, microbatches))
    for gap_ms, what, number in steps:
        life.now_ms += gap_ms
        if what == "restart":
            life.restart()
        elif what == "options":
            chosen = options((0, 1, 2, 30)[number], 2 + number)
            life.options = chosen
            life.state, _ = decide(life.state, ev.SetOptions(chosen))
        before = life.state.last.readable_from
        decided_ms = life.now_ms
        last = life.commit(taking_ms=500 if what == "slow" else 0)
        assert before <= last.horizon <= max(before, last.id - 2)
        assert last.horizon <= max(before, last.id - life.options.history_microbatches)
        kept_ms = life.options.history_millis
        for commit in range(before, last.horizon):
            assert decided_ms - life.ended_ms[commit] >= kept_ms, (commit, last.id)


@pytest.mark.parametrize("pinned", [None, 4])
def test_commits_of_old_versions_name_no_horizon(pinned):
    """Only the state as of themselves is known to be kept."""
    old = msgspec.structs.replace(GENESIS, id=8, horizon=-1)
    assert isinstance(old, Commit)
    assert horizon_of(9, old, options(10), NO_HEADS, pinned) == 8
    assert replace(NO_HEADS, passed_ms=3).before(0) is None
