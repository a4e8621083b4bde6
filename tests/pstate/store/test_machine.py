"""Holds the law of the vnode store over random lives of it.

Whatever was attempted, given up, run twice, lost, caught up and rebuilt: a reader at a commit sees
exactly what that commit holds, and the next attempt starts exactly there.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

KEYS = [b"a", b"b", b"c", b"d" * 480, b"d" * 481, b"d" * 600, b"e"]
CHANGES = st.dictionaries(
    st.sampled_from([0, 1]),
    st.dictionaries(st.sampled_from(KEYS), st.none() | st.sampled_from([b"", b"1", b"22"])),
    max_size=2,
)


def machine(new_world):  # noqa: C901  # a rule per event
    """The state machine's class, making its worlds with the fixture."""

    class Lives(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.world = new_world(vnodes=(0, 1), kept=2)
            self.version = 0
            self.oldest = 0

        def attempt(self, step=0):
            return self.world.attempt(version=self.version, step=step)

        @rule(changes=CHANGES, scribble=st.booleans())
        def attempt_dies(self, changes, scribble):
            """An attempt's work stays in the store uncommitted."""
            self.version += 1
            self.world.run(changes, attempt=self.attempt(), scribble=scribble)

        @rule(changes=CHANGES, vnode=st.sampled_from([0, 1]))
        def session_aborts(self, changes, vnode):
            """A session ends without a commit."""
            self.version += 1
            with self.world.open(self.attempt(), vnode) as session:
                keys = sorted(changes.get(vnode, {}))
                session.put_many(keys, [changes[vnode][key] for key in keys])

        @rule(changes=CHANGES, scribble=st.booleans())
        def microbatch(self, changes, scribble):
            """The common case."""
            self.version += 1
            run = self.world.run(changes, attempt=self.attempt(), scribble=scribble)
            self.world.commit(run)
            self.version = 0

        @rule(mine=CHANGES, other=CHANGES, first_wins=st.booleans())
        def twins(self, mine, other, first_wins):
            """One task runs twice, with other results; either may win."""
            self.version += 1
            runs = [self.world.run(each, attempt=self.attempt()) for each in (mine, other)]
            self.world.commit(runs[0] if first_wins else runs[1])
            self.version = 0

        @rule(
            first=CHANGES,
            second=CHANGES,
            lost=st.sets(st.sampled_from([0, 1])),
            twin=st.none() | CHANGES,
            dies=st.booleans(),
        )
        def two_steps(self, first, second, lost, twin, dies):
            """A microbatch of two jobs; between them a store may be lost, or a twin overwrite."""
            self.version += 1
            one = self.world.run(first, attempt=self.attempt())
            if twin is not None:
                self.world.run(twin, attempt=self.attempt())
            for vnode in lost:
                self.world.lose(vnode)
            priors = (self.world.prior(one),)
            two = self.world.run(second, attempt=self.attempt(1), priors=priors)
            if not dies:
                self.world.commit(one, two)
                self.version = 0

        @rule(first=CHANGES, second=CHANGES, again=CHANGES)
        def second_step_left_behind(self, first, second, again):
            """The winner of the second step worked elsewhere: the store here lacks its part."""
            self.version += 1
            one = self.world.run(first, attempt=self.attempt())
            priors = (self.world.prior(one),)
            two = self.world.run(second, attempt=self.attempt(1), priors=priors)
            self.world.run(again, attempt=self.attempt(1), priors=priors)
            for vnode in (0, 1):  # only repairs, then is given up
                self.world.open(self.attempt(1), vnode, priors).abort()
            self.world.commit(one, two)
            self.version = 0

        @rule(vnode=st.sampled_from([0, 1]))
        def lose_store(self, vnode):
            """The local folder is a cache."""
            self.world.lose(vnode)

        @rule()
        def checkpoint(self):
            """Later rebuilds start here, and commits before it are gone."""
            self.world.checkpoint()
            self.oldest = self.world.last

        @rule(back=st.integers(0, 4))
        def read_old_view(self, back):
            """Older commits stay readable; beyond the reverse logs from the log itself."""
            wanted = max(self.world.last - back, self.oldest if back > 2 else 0, 0)
            self.world.check(wanted, KEYS)

        @invariant()
        def reader_sees_the_commit(self):
            """Whatever is pending."""
            self.world.check(self.world.last, KEYS)

    return Lives


def test_lives(new_world):
    """Random lives of two vnode stores."""
    run_state_machine_as_test(
        machine(new_world),
        settings=settings(
            max_examples=60,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
