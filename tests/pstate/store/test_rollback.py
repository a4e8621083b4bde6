"""Holds that a vnode store follows rollbacks: whatever it held, it ends on the newest timeline.

Stores are opened by some microbatches only, so one may follow a timeline that ended several
rollbacks ago; a reader never sees anything of it.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from atoll.errors import FencedError
from atoll.pstate.store.attempt import Header, Pending
from atoll.pstate.store.opening import VnodeHistory
from atoll.pstate.view import how_to_read

KEYS = [b"a", b"b", b"c", b"d" * 600]
VNODES = [0, 1]
CHANGES = st.dictionaries(
    st.sampled_from(VNODES),
    st.dictionaries(st.sampled_from(KEYS), st.none() | st.sampled_from([b"", b"1", b"22"])),
    max_size=2,
)


def machine(new_world):  # noqa: C901  # a rule per event
    """The state machine's class."""

    class Lives(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.world = new_world(vnodes=VNODES, kept=3)
            self.version = 0
            self.epoch = 1
            self.oldest = 0
            self.views = []

        def attempt(self):
            self.version += 1
            return self.world.attempt(version=self.version, epoch=self.epoch)

        @initialize(first=CHANGES, second=CHANGES, back=st.integers(0, 1))
        def one_rollback(self, first, second, back):
            """Every life has one, so that it never is chance whether any was met."""
            self.microbatch(first, lost=False)
            self.microbatch(second, lost=False)
            self.roll_back(back=back + 1, restart=False)

        @rule(changes=CHANGES, lost=st.booleans())
        def microbatch(self, changes, lost):
            """It commits; ``lost``: another worker did it, so this host's stores lack it."""
            run = self.world.run(changes, attempt=self.attempt())
            self.world.commit(run)
            self.version = 0
            if lost:
                self.world.lose(0)

        @rule(changes=CHANGES)
        def attempt_dies(self, changes):
            """Its work stays pending, perhaps over a rollback."""
            self.world.run(changes, attempt=self.attempt())

        @precondition(lambda self: self.world.last > self.oldest)
        @rule(back=st.integers(0, 5), restart=st.booleans())
        def roll_back(self, back, restart):
            """Within one life of the coordinator, or by the next one."""
            to = max(self.world.last - back, self.oldest, 0)
            self.views.append((self.world.view(), self.world.models[self.world.last]))
            del self.views[:-3]
            self.world.roll_back(to)
            self.epoch += restart
            self.version = 0

        @rule(back=st.integers(0, 4), keys=st.sets(st.sampled_from(KEYS)))
        def read_as_of(self, back, keys):
            """Earlier commits of this timeline, whatever the stores follow."""
            self.world.check(max(self.world.last - back, self.oldest), keys)

        @rule(vnode=st.sampled_from(VNODES))
        def readers_of_abandoned_commits_see_no_mixture(self, vnode):
            """Their log is still there in this test: they see their commit and nothing else."""
            for view, model in self.views:
                assert list(view.scan(vnode)) == sorted(model[vnode].items())

        @precondition(lambda self: self.world.last > self.oldest)
        @rule()
        def checkpoint(self):
            """Nothing goes back behind it."""
            self.world.checkpoint()
            self.oldest = self.world.last
            self.views.clear()

        @rule(vnode=st.sampled_from(VNODES))
        def lose_store(self, vnode):
            """The local folder is a cache."""
            self.world.lose(vnode)

        @rule(vnode=st.sampled_from(VNODES))
        def read_one(self, vnode):
            """Only this vnode is read, so the other stays on its timeline."""
            model = self.world.models[self.world.last][vnode]
            assert list(self.world.view().scan(vnode)) == sorted(model.items())

        @invariant()
        def one_key_is_right(self):
            """A read of vnode 1 every time would bring it over at once: 0 is left alone."""
            model = self.world.models[self.world.last][1]
            assert self.world.view().get(1, b"a") == model.get(b"a")

        def teardown(self):
            """In the end everything is exactly the newest timeline's."""
            self.world.check(self.world.last, KEYS)
            for vnode in VNODES:
                with self.world.open(self.attempt(), vnode) as session:
                    model = self.world.models[self.world.last][vnode]
                    assert list(session.scan()) == sorted(model.items())

    return Lives


def test_lives_with_rollbacks(new_world):
    """Random lives of two vnode stores over several timelines, each with a rollback at least."""
    run_state_machine_as_test(
        machine(new_world),
        settings=settings(
            max_examples=100,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def test_the_new_line_replaces_the_old(world):
    """Other records after a rollback: nothing of the abandoned commits is left."""
    world.commit(world.run({0: {b"a": b"1", b"gone": b"0"}}))
    world.commit(world.run({0: {b"a": b"2", b"old": b"2", b"gone": None}}))
    world.commit(world.run({0: {b"a": b"3", b"old": b"3"}}))
    world.roll_back(1)
    world.check(1, [b"old", b"gone"])
    world.commit(world.run({0: {b"b": b"2"}}))
    assert world.models[2][0] == {b"a": b"1", b"gone": b"0", b"b": b"2"}
    world.check(2, [b"old"])
    world.check(1, [b"old", b"b"])


def test_a_store_beyond_its_reverse_logs_is_rebuilt(world):
    """Nobody kept enough to take it back: it is built from the log."""
    for value in range(8):
        world.commit(world.run({0: {b"a": b"%d" % value, b"k%d" % value: b""}}))
    world.roll_back(2)
    world.check(2, [b"k5"])
    with world.open(world.attempt(version=1)) as session:
        assert session.opening.kind == "absent" or session.opening.logs == 0
        assert session.get(b"k5") is None


def test_the_same_id_on_another_timeline_is_another_microbatch(world):
    """Pending work of an abandoned microbatch is not taken for its namesake's earlier step."""
    world.commit(world.run({0: {b"a": b"1"}}))
    world.commit(world.run({0: {b"a": b"2"}}))
    world.run({0: {b"x": b"old 3"}})  # pending, id 3 of timeline 0
    world.roll_back(1)
    world.commit(world.run({1: {}}))  # id 2 of timeline 1 leaves the vnode alone
    with world.open(world.attempt(version=1)) as session:
        assert dict(session.scan()) == {b"a": b"1"}


def test_a_late_task_of_an_abandoned_microbatch_is_refused(world):
    """It knows the old timeline only; the ids of the new one are lower, its rank is higher."""
    for value in (b"1", b"2", b"3"):
        world.commit(world.run({0: {b"a": value}}))
    late = world.attempt(version=9)
    known = world.history()
    world.roll_back(1)
    world.run({0: {b"a": b"new"}}, version=1)
    with pytest.raises(FencedError):
        world.stores.open("counts", 0, late, known)
    world.commit(world.run({0: {b"a": b"new"}}, version=2))
    world.check(2)


def test_a_late_task_is_refused_by_a_store_that_a_reader_brought_over(world):
    """No attempt of the new timeline was here yet, so only the store's own timeline can tell."""
    for value in (b"1", b"2", b"3"):
        world.commit(world.run({0: {b"a": value}}))
    late, known = world.attempt(version=9), world.history()
    world.roll_back(1)
    world.commit()
    world.check(2)
    with pytest.raises(FencedError):
        world.stores.open("counts", 0, late, known)


def test_two_rollbacks_past_a_store(world):
    """The store follows timeline 0; only what both branches share counts."""
    for value in (b"1", b"2", b"3", b"4"):
        world.commit(world.run({0: {b"a": value}}))
    world.roll_back(3)
    world.commit()
    world.roll_back(2)
    world.commit()
    world.commit()
    assert world.last == 4
    assert world.models[4][0] == {b"a": b"2"}
    world.check(4)


def test_back_to_the_beginning(world):
    """Id 0 is the empty state."""
    world.commit(world.run({0: {b"a": b"1"}}))
    world.roll_back(0)
    world.check(0, [b"a"])
    world.commit(world.run({0: {b"b": b"1"}}, version=1))
    assert world.models[1][0] == {b"b": b"1"}
    world.check(1, [b"a"])


class _Log:
    commit_id = 5
    timeline = 2
    horizon = 3

    def branch_since(self, timeline):
        return (3, 4, None)[timeline]

    def last_touched(self, pstate, vnode):
        return 4

    def committed_tokens(self, pstate, vnode, commit_id):
        return frozenset({"won"})

    def committed_steps(self, pstate, vnode, commit_id):
        return (0,)


def _pending(work_id):
    return (Pending(work_id, 0, 1, 1, "won"),)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (Header(applied=5, timeline=2), "direct"),
        (Header(applied=5, timeline=3), "lost"),
        (Header(applied=5, timeline=1), "behind"),
        (Header(applied=4, timeline=1), "direct"),
        (Header(applied=4, timeline=0), "behind"),
        (Header(applied=4, timeline=1, pending=_pending(5)), "behind"),
        (Header(applied=4, timeline=1, pending=_pending(6)), "behind"),
        (Header(applied=3, timeline=1, pending=_pending(4)), "direct"),
        (Header(applied=3, timeline=0, pending=_pending(4)), "behind"),
    ],
)
def test_how_to_read(header, wanted):
    """For a reader at commit 5 of timeline 2, which left 1 at 4; 1 left 0 at 3."""
    assert how_to_read(header, VnodeHistory(_Log(), "p", 0)) == wanted
