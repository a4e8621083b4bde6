"""Updates of random modules by random edits: the plan says what happens, and that is what happens.

Whatever was inserted, removed, swapped, named or changed: after the update every PState is what
plain Python makes of the records and of the rule for what goes on (``random_updates.py``), or the
update was refused and the version before goes on. No step ever has another's state.
"""

from __future__ import annotations

import os
import re
from collections import Counter

import random_updates as updates
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from atoll.errors import DeployError
from atoll.testing import TopologyTestDriver

SOAK = os.environ.get("ATOLL_SOAK", "") not in {"", "0"}

ROWS = st.lists(
    st.tuples(
        st.sampled_from(updates.KEYS),
        st.sampled_from(updates.WORDS),
        st.sampled_from(updates.WORDS),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 25_000),
    ),
    min_size=1,
    max_size=6,
)


def records(rows, number):
    """Rows as records; each batch comes ten seconds after the one before."""
    fields = ("k", "a", "b", "n", "m", "at")
    made = [dict(zip(fields, row, strict=True)) for row in rows]
    return [{**row, "at": row["at"] + 10_000 * number} for row in made]


class Run:
    """A module that runs, and what it should hold."""

    def __init__(self, driver, version):
        self.driver = driver
        self.oracle = updates.Oracle(version)
        self.batches = 0
        self.seen = Counter()

    def append(self, rows):
        """One microbatch of records of each depot, and what follows from it."""
        batch = {name: records(rows[name], self.batches) for name in ("d", "r", "s")}
        self.batches += 1
        for name, each in batch.items():
            self.driver.depot(name).append(each)
        self.driver.run_until_idle()
        self.oracle.batch(batch)

    def check(self):
        """Every PState is as it should be."""
        found = {name: self.driver.pstate(name).get() for name in self.oracle.values}
        assert found == self.oracle.values, self.oracle.version

    def update(self, version, consents):
        """Deploy another version; what is refused stays refused unless the user names it."""
        expected, said = self.oracle.update(version)
        remove = []
        plan = self._plan(version, remove)
        told = f"{self.oracle.version}\n{version}\n{plan}"
        assert bool(plan.refused) == said.refused, told
        if plan.refused and not consents:
            self.seen["refused"] += 1
            try:
                self.driver.update(updates.build(version))
            except DeployError:
                return
            raise AssertionError("the plan refused what the update took")
        while plan.refused:
            asked = {name for each in plan.refused for name in named(each)}
            assert asked - set(remove), str(plan)
            remove += sorted(asked - set(remove))
            plan = self._plan(version, remove)
        effects = Counter(each.effect for each in plan.changes if each.kind == "hidden")
        assert effects == Counter(kept=said.kept, added=said.added, removed=said.removed), told
        self.seen += effects
        self.driver.update(updates.build(version), remove=remove)
        self.oracle = expected

    def _plan(self, version, remove):
        return self.driver.cluster.plan(updates.build(version), remove=remove)


def named(change):
    """What the refusal says may be named for removal."""
    said = f"{change.detail} {change.hint}"
    return re.findall(r"(?:hidden|pstate):[\w.-]*\w", said)


def test_an_update_does_what_its_plan_says():
    """Fixed examples: the same in every run."""
    seen = Counter()

    @given(data=st.data(), versions=updates.histories())
    @settings(
        max_examples=2000 if SOAK else 24,
        derandomize=True,
        phases=(Phase.generate,),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def live(data, versions):
        with TopologyTestDriver(updates.build(versions[0]), engine="inline") as driver:
            run = Run(driver, versions[0])
            for version in [*versions[1:], None]:
                for _ in range(1 + SOAK):
                    run.append({name: data.draw(ROWS) for name in ("d", "r", "s")})
                run.check()
                if version is not None:
                    run.update(version, consents=data.draw(st.booleans()))
                    run.check()
            seen.update(run.seen)

    live()
    assert min(seen[each] for each in ("refused", "kept", "added", "removed")) > 0
