"""Versions of attempts: they rise within a life and from one life to the next."""

from __future__ import annotations

import pytest
from memory_store import MemoryStore

import atoll
from atoll import Map, agg, path
from atoll.errors import PathError
from atoll.microbatch.commits.history import latest_commit
from atoll.microbatch.commits.objects import Plan
from atoll.microbatch.plans.attempts import (
    Tried,
    attempt_objects,
    begin_attempt,
    plan_tried,
    version_reached,
)
from atoll.storage.local import LocalStore
from atoll.testing import TopologyTestDriver


@pytest.fixture
def driver(tmp_path):
    """Counts words."""
    module = atoll.Module("words")
    words = module.depot("words", "word string", partition_by="word")
    mb = module.microbatch("mb", vnode_count=4)
    counts = mb.pstate("counts", Map(str, int))
    mb.source(words).aggregate(counts["word"], agg.count())
    with TopologyTestDriver(module, root=tmp_path, parallelism=1, engine="inline") as running:
        yield running


def attempts(driver):
    """Those that are written down."""
    return attempt_objects(LocalStore(driver.cluster.root), "words", "mb").numbers()


def test_the_version_rises_across_restarts(driver):
    """A life goes on above what any life before it may have used, however they ended."""
    driver.depot("words").append([{"word": "a"}])
    driver.fail_next_attempt()
    assert [driver.step() for _ in range(2)] == ["prime", "failed"]  # version 1
    driver.restart()
    assert driver.topology("mb").microbatch_state.get()["version"] == 1
    driver.fail_next_attempt(after_work=True)
    assert driver.step() == "failed"  # version 2
    assert driver.status()["version"] == 2
    driver.restart()
    assert driver.step() == "process"  # version 3, and the life ends before the commit
    driver.restart()
    assert driver.microbatch().version == 4
    assert driver.pstate("counts").get() == {"a": 1}
    assert latest_commit(LocalStore(driver.cluster.root), "words", "mb").version == 4


def test_a_first_attempt_that_succeeds_writes_nothing_down(driver):
    """So the version costs only microbatches that fail or meet a restart."""
    driver.depot("words").append([{"word": "a"}])
    assert driver.microbatch().version == 1
    assert attempts(driver) == []
    driver.depot("words").append([{"word": "a"}])
    driver.fail_next_attempt(times=2)
    assert driver.microbatch().version == 3
    assert [(plan_tried(each), each % 10) for each in attempts(driver)] == [(2, 2), (2, 3)]


def test_what_is_written_of_attempts_is_dropped_with_the_plan(driver):
    """When no recovery needs the commit any more."""
    driver.app.options.set("pstate.history.seconds", 0)
    driver.app.options.set("pstate.checkpoint.interval.commits", 1)
    driver.depot("words").append([{"word": "a"}])
    driver.fail_next_attempt()
    driver.microbatch()
    assert len(attempts(driver)) == 1
    for _ in range(6):
        driver.depot("words").append([{"word": "a"}])
        driver.microbatch()
    assert attempts(driver) == []


def test_timelines_and_plans_do_not_share_versions():
    """After a rollback an id begins anew."""
    store = MemoryStore()
    plan = Plan(7, 1, 0, {}, {})
    for version in (1, 2, 3):
        begin_attempt(store, "m", "mb", plan, version, Tried(1, 0))
    assert version_reached(store, "m", "mb", plan) == 3
    assert version_reached(store, "m", "mb", Plan(7, 1, 0, {}, {}, 1)) == 1
    assert version_reached(store, "m", "mb", Plan(8, 1, 0, {}, {})) == 1


def test_the_microbatch_state_is_read_as_a_pstate_is(driver):
    """Id, version, phase, ranges and since when: of the plan that runs, or of the last commit."""
    state = driver.topology("mb").microbatch_state
    driver.depot("words").append([{"word": "a"}])
    driver.advance(2)
    driver.fail_next_attempt()
    driver.step()
    driver.step()
    found = state.get()
    began_ms = found.pop("since_ms")
    (start, end) = next(each for each in found["ranges"]["words"] if each != [0, 0])
    assert (start, end) == (0, 1)
    assert (found["id"], found["version"], found["phase"]) == (1, 1, "process")
    driver.advance(3)
    assert state.select_one(path.key("since_ms")) == began_ms
    assert state.select(path.key("ranges").key("words").all().last()) == [
        end for _, end in found["ranges"]["words"]
    ]
    driver.run_until_idle()
    assert state.select(path.key("phase")) == ["idle"]
    found = state.get()
    assert (found["id"], found["version"], found["phase"]) == (1, 2, "idle")
    assert found["since_ms"] > began_ms
    with pytest.raises(PathError, match="no field"):
        state.select(path.key("nothing"))
