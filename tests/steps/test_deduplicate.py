"""``deduplicate``: equal to a plain fold that forgets nothing, however it runs; it forgets."""

from __future__ import annotations

import copy
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import atoll
from atoll import Map, agg, start
from atoll.errors import AtollError, DeclarationError
from atoll.testing import TopologyTestDriver

SECOND = 1_000
DELAY_MS = 5_000
WITHIN_MS = 10_000
MODES = {
    "ever": {},
    "clock": {"within": "10 seconds"},
    "event": {"within": "10 seconds", "at": "at"},
}


def module_of(*, key="id", partitions=1, watermark=True, options=None, **kept):
    """A module that keeps the numbers of the rows that pass, each with how often it did."""
    module = atoll.Module("passing")
    source = module.depot("rows", "id string, at long, n long", partitions=partitions)
    mb = module.microbatch("mb", vnode_count=4, options=options or {})
    passed = mb.pstate("out", Map(int, int))
    rows = mb.source(source, start_from=start.beginning())
    if watermark:
        rows = rows.with_watermark("at", "5 seconds")
    rows.deduplicate(key, **kept).aggregate(passed["n"], agg.count())
    return module


class Fold:
    """What a step must do: rows in, the numbers of those that pass; nothing is forgotten."""

    def __init__(self, mode):
        self.mode = mode
        self.passed = defaultdict(list)
        self.out = {}
        self.late = 0
        self.highest = None

    def microbatch(self, rows, now_ms):
        """Take the rows of one microbatch, in their order."""
        mark = None if self.highest is None else self.highest - DELAY_MS
        for row in rows:
            if self.mode == "event" and mark is not None and row["at"] < mark:
                self.late += 1
                continue
            time = row["at"] if self.mode == "event" else now_ms
            far = WITHIN_MS if self.mode != "ever" else float("inf")
            if all(abs(time - each) >= far for each in self.passed[row["id"]]):
                self.passed[row["id"]].append(time)
                self.out[row["n"]] = 1
        for row in rows:
            self.highest = max(row["at"], self.highest or row["at"])


def hidden(driver):
    """How many entries there are in each hidden PState of the step."""
    return [
        sum(1 for vnode in range(4) for _ in state.view().vnode(vnode).scan())
        for name, state in sorted(driver.app._pstates.items())
        if name.startswith("_mb-passed")
    ]


def _ran(driver, known):
    """Whether one ran that the fold does not know: on a new placement it is tried first."""
    return driver.status()["committed"] > max(known)


EVENTS = st.sampled_from(["nothing", "fail", "restart", "rescale", "roll back"])
ROUND = st.tuples(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.integers(-9, 14)), min_size=1, max_size=8
    ),
    st.integers(0, 9),
    EVENTS,
)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(ROUND, min_size=5, max_size=7))
def test_it_is_a_plain_fold(mode, rounds):
    """Over attempts that fail after their work, restarts, rescaling and rollbacks."""
    with TopologyTestDriver(module_of(**MODES[mode]), engine="inline", parallelism=2) as driver:
        fold = Fold(mode)
        known = {0: (copy.deepcopy(fold), 0)}
        rows, done = [], 0
        for number, (drawn, seconds, event) in enumerate(rounds):
            driver.advance(seconds)
            new = [
                {"id": key, "at": (number * 4 + off) * SECOND, "n": len(rows) + each}
                for each, (key, off) in enumerate(drawn)
            ]
            rows += new
            driver.depot("rows").append(new)
            match event:
                case "fail":
                    driver.fail_next_attempt(after_work=True)
                case "restart":
                    driver.step()
                    driver.step()
                    driver.restart()
                case "rescale":
                    driver.cluster.add_worker(f"worker-{number}", 1 + number % 2)
                case "roll back" if len(known) > 1:
                    back = max(known) - 1
                    fold, done = known[back][0], known[back][1]
                    known = {which: each for which, each in known.items() if which <= back}
                    fold = copy.deepcopy(fold)
                    driver.topology("mb").rollback(to_microbatch=back)
                    driver.topology("mb").resume()
            while _ran(driver, known) or driver.microbatch("mb") is not None:
                fold.microbatch(rows[done:], driver.status()["time"]["now_ms"])
                done = len(rows)
                known[driver.status()["committed"]] = (copy.deepcopy(fold), done)
            assert driver.pstate("out").get() == fold.out
            assert sum(driver.status()["time"]["dropped"].values()) == fold.late


@pytest.mark.parametrize("mode", ["clock", "event"])
def test_what_can_no_longer_matter_is_forgotten(mode):
    """Both PStates are empty again when time is far enough, without a record of that key."""
    with TopologyTestDriver(module_of(**MODES[mode]), engine="inline") as driver:
        keys = [{"id": f"k{each}", "at": each, "n": each} for each in range(50)]
        driver.depot("rows").append(keys)
        driver.run_until_idle()
        assert hidden(driver) == [50, 50]
        driver.advance(60)
        if mode == "event":
            driver.depot("rows").append([{"id": "z", "at": 60 * SECOND, "n": 99}])
            driver.run_until_idle()
        driver.run_until_idle()
        assert hidden(driver) == ([0, 0] if mode == "clock" else [1, 1])
        assert driver.microbatch("mb") is None


def test_for_ever_is_for_ever():
    """Without a time nothing is forgotten, and nothing is due."""
    with TopologyTestDriver(module_of(), engine="inline") as driver:
        driver.depot("rows").append([{"id": "a", "at": 0, "n": 1}])
        driver.run_until_idle()
        driver.advance(10_000_000)
        assert driver.microbatch("mb") is None
        driver.depot("rows").append([{"id": "a", "at": 0, "n": 2}, {"id": "b", "at": 0, "n": 3}])
        driver.run_until_idle()
        assert driver.pstate("out").get() == {1: 1, 3: 1}
        assert hidden(driver) == [2]


def test_keys_may_be_computed_and_several():
    """The columns made for them are not seen behind the step; null is a value."""
    module = atoll.Module("passing")
    source = module.depot("rows", "id string, at long, n long", partitions=1)
    out = module.depot("out", "id string, at long, n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    rows = mb.source(source, start_from=start.beginning())
    rows.deduplicate(["upper(id)", "n % 2"]).append_to(out)
    with TopologyTestDriver(module, engine="inline") as driver:
        given = [("a", 0), ("A", 2), ("A", 1), (None, 1), (None, 3), (None, 2)]
        driver.depot("rows").append([{"id": k, "at": 0, "n": n} for k, n in given])
        driver.run_until_idle()
        found = driver.depot("out").read(0, 0, driver.depot("out").end_offsets()[0]).to_pylist()
        assert [(each["id"], each["n"]) for each in found] == [
            ("a", 0),
            ("A", 1),
            (None, 1),
            (None, 2),
        ]


def test_an_update_finds_it_again():
    """Also when its rows come another way; another key is another meaning, and refused."""
    with TopologyTestDriver(module_of(), engine="inline") as driver:
        driver.depot("rows").append([{"id": "a", "at": 0, "n": 1}])
        driver.run_until_idle()
        driver.update(module_of(watermark=False))
        driver.depot("rows").append([{"id": "a", "at": 0, "n": 2}])
        driver.run_until_idle()
        assert driver.pstate("out").get() == {1: 1}
        with pytest.raises(AtollError, match=r"deduplicate\(id\) of rows"):
            driver.update(module_of(within="1 hour"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"key": ()}, "which rows are the same"),
        ({"at": "at"}, "for ever without within="),
        ({"within": "10 parsecs"}, "within="),
        (
            {"within": "1 hour", "at": "at", "watermark": False},
            "need a watermark|needs a watermark",
        ),
        ({"within": "1 hour", "at": "at + 1"}, "name of a column"),
    ],
)
def test_mistakes_are_told_on_their_line(wrong, message):
    """Before anything is deployed."""
    with pytest.raises(DeclarationError, match=message) as caught:
        module_of(**wrong)
    assert "test_deduplicate.py" in caught.value.context["declared"]
