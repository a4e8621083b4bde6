"""Options changed while a module runs: where they count, from when on, and what they do."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.engine.exchange.packing import KeyedPacker
from atoll.errors import DeclarationError, FencedError, NotFoundError, UsageError
from atoll.microbatch.control.options import Options, bounds_of, levels_of
from atoll.microbatch.control.tuning import Settings, SettingsLog
from atoll.pstate.handles.writes import Writes
from atoll.steps.aggregate.bind import BoundAggregate
from atoll.storage.local import LocalStore
from atoll.testing import TopologyTestDriver

RECORDS = "depot.microbatch.max.records"
FETCH = "depot.max.fetch"
FLUSH = "pstate.flush.max.entries"
COMBINE = "topology.combiner.limit"


def module(options=None, step=None):
    """Two depots, two topologies; the first reads both, and counts by a function as well."""
    made = atoll.Module("tuned")
    one = made.depot("one", "word string", partition_by="word", partitions=1)
    two = made.depot("two", "word string", partition_by="word", partitions=1)
    mb = made.microbatch("mb", vnode_count=1, options=options)
    counts = mb.pstate("counts", Map(str, int))
    seen = mb.pstate("seen", Map(str, int))
    other = made.microbatch("other", vnode_count=1)
    total = other.pstate("total", int, initial=0)

    def count(row, seen):
        seen[row.word] = seen.get(row.word, 0) + 1

    both = mb.source(one, start_from=start.beginning()).union(
        mb.source(two, start_from=start.beginning())
    )
    if step is not None:
        both = both.map_batches(step, emits="word string")
    both.aggregate(counts["word"], agg.count())
    both.process(count, key="word", states=[seen])
    other.source(one, start_from=start.beginning()).aggregate(total, agg.count())
    return made


def rows(words):
    """One record per letter."""
    return [{"word": word} for word in words]


def test_the_most_specific_value_wins():
    """Depot before topology before module; what is declared stands for the topology."""
    with TopologyTestDriver(module({RECORDS: 50})) as driver:
        options = driver.app.options

        def values():
            return [
                options.get(RECORDS, topology="mb"),
                options.get(RECORDS, topology="mb", depot="one"),
                options.get(RECORDS, topology="mb", depot="two"),
                options.get(RECORDS, topology="other"),
            ]

        default = Options().microbatch_records_max
        assert values() == [50, 50, 50, default]
        options.set(RECORDS, 40)
        assert values() == [50, 50, 50, 40]
        options.set(RECORDS, 30, topology="mb")
        assert values() == [30, 30, 30, 40]
        options.set(RECORDS, 3, depot="one")
        assert values() == [30, 3, 30, 40]
        driver.depot("one").append(rows("abcdefg"))
        driver.depot("two").append(rows("abcdefg"))
        assert driver.microbatch("mb").ranges == {"one": [(0, 3)], "two": [(0, 7)]}
        assert driver.microbatch("other").ranges == {"one": [(0, 3)]}
        assert driver.microbatch("mb", max_records=1).ranges == {"one": [(3, 4)], "two": [(7, 7)]}
        assert driver.microbatch("mb", max_records=9).records == 3
        options.unset(RECORDS, depot="one")
        options.unset(RECORDS, topology="mb")
        assert values() == [50, 50, 50, 40]
        options.unset(RECORDS)
        assert values() == [50, 50, 50, default]


def test_they_are_kept_over_restarts_and_fenced(tmp_path):
    """A life that is over changes nothing more."""
    with TopologyTestDriver(module(), root=tmp_path) as driver:
        before = driver.app.options
        before.set(RECORDS, 2, topology="mb")
        before.set(FLUSH, 7, pstate="seen")
        driver.restart()
        with pytest.raises(FencedError):
            before.set(RECORDS, 1)
    with TopologyTestDriver(module(), root=tmp_path) as driver:
        options = driver.app.options
        assert options.get(RECORDS, topology="mb") == 2
        assert options.get(FLUSH, topology="mb", pstate="seen") == 7
        assert options.get(FLUSH, topology="mb", pstate="counts") == Options().flush_entries_max
        driver.depot("one").append(rows("abc"))
        assert driver.microbatch("mb").records == 2
        described = options.describe()
        assert described["set"] == {
            "topology": {"mb": {RECORDS: 2}},
            "pstate": {"seen": {FLUSH: 7}},
        }
        assert described["topologies"]["mb"]["options"][RECORDS] == 2
        assert described["topologies"]["mb"]["pstates"] == {"seen": {FLUSH: 7}}


def test_a_running_microbatch_ends_with_the_options_that_it_began_with():
    """The next one has the new ones; setting does not wait."""
    began, go_on = threading.Event(), threading.Event()

    def slow(batches):
        began.set()
        assert go_on.wait(60)
        yield from batches

    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(module({RECORDS: 3}, slow))
        topology = app.topology("mb")
        topology.pause()
        app.depot("one").append(rows("abcdefgh"))
        topology.resume()
        assert began.wait(60)
        app.options.set(RECORDS, 4)
        app.options.set(RECORDS, 5, depot="one")
        go_on.set()
        topology.wait_processed(8)
        topology.pause()  # the last one is in the history when it has ended
        assert [each["records"] for each in topology.recent_microbatches()] == [3, 5]


@pytest.mark.parametrize("limit", [1, 2, 5, 1_000])
def test_fetch_flush_and_combine_change_how_and_never_what(limit, monkeypatch):
    """Batches, flushes and partial aggregates are as limited as said; the results are the same."""
    batches, waiting, folds = [], [], []
    flush, fold = Writes.flush, KeyedPacker._fold

    def noted(given):
        for batch in given:
            batches.append(batch.num_rows)
            yield batch

    def flushed(self):
        waiting.append(len(self.unflushed))
        flush(self)

    def folded(self):
        if isinstance(self.step, BoundAggregate):
            folds.append(self._rows)
        fold(self)

    monkeypatch.setattr(Writes, "flush", flushed)
    monkeypatch.setattr(KeyedPacker, "_fold", folded)
    words = "abcabdaeafgabcc" * 3
    with TopologyTestDriver(module(step=noted), parallelism=1) as driver:
        driver.app.options.set(FETCH, limit, depot="one")
        driver.app.options.set(FLUSH, limit, pstate="seen")
        driver.app.options.set(COMBINE, limit, topology="mb")
        driver.depot("one").append(rows(words))
        driver.microbatch("mb")
        expected = dict(sorted(Counter(words).items()))
        assert driver.pstate("counts").get() == expected
        assert driver.pstate("seen").get() == expected
    most = min(limit, len(words))
    assert max(batches) == most
    assert max(waiting) == min(limit, len(expected))
    assert max(folds) == most


def test_history_follows_the_option():
    """State stays readable as far back as is said now, from then on."""
    with TopologyTestDriver(module()) as driver:
        driver.app.options.set("pstate.history.seconds", 0)
        driver.app.options.set("pstate.history.microbatches", 5)
        for word in "abcdefgh":
            driver.depot("one").append(rows(word))
            driver.microbatch("mb")
        assert driver.pstate("counts").as_of(3).get() == {"a": 1, "b": 1, "c": 1}
        driver.app.options.set("pstate.history.microbatches", 2)
        driver.depot("one").append(rows("i"))
        driver.microbatch("mb")
        with pytest.raises(UsageError, match="cannot be read"):
            driver.pstate("counts").as_of(3)


def test_retries_follow_the_option_at_once():
    """A topology that waits for its next attempt has it."""
    with TopologyTestDriver(module()) as driver:
        driver.depot("one").append(rows("a"))
        driver.fail_next_attempt("mb", times=3)
        assert [driver.step("mb") for _ in range(2)] == ["prime", "failed"]
        driver.app.options.set("topology.microbatch.retry.max.attempts", 2, topology="mb")
        with pytest.raises(atoll.errors.TopologyFailedError):
            driver.microbatch("mb")


@pytest.mark.parametrize("name", ["ack.branching.factor", "ack.delay.base.millis"])
def test_what_can_mean_nothing_here_says_why(name):
    """Declared or set."""
    option = f"topology.microbatch.{name}"
    with pytest.raises(DeclarationError, match="Spark's scheduler"):
        TopologyTestDriver(module({option: 1}))
    with (
        TopologyTestDriver(module()) as driver,
        pytest.raises(DeclarationError, match="can mean nothing here"),
    ):
        driver.app.options.set(option, 1)


def test_mistakes_change_nothing():
    """Names, values, levels and places."""
    with TopologyTestDriver(module()) as driver:
        options = driver.app.options
        for wrong in (0, True, 1.5, "7"):
            with pytest.raises(DeclarationError, match="whole number"):
                options.set(RECORDS, wrong)
        with pytest.raises(UsageError, match="needs a value"):
            options.set(RECORDS, None)
        with pytest.raises(DeclarationError, match="did you mean"):
            options.set("depot.microbatch.max.record", 1)
        with pytest.raises(UsageError, match="cannot be set for a depot"):
            options.set(COMBINE, 1, depot="one")
        with pytest.raises(UsageError, match="one topology, depot or PState at a time"):
            options.set(RECORDS, 1, depot="one", topology="mb")
        with pytest.raises(NotFoundError, match="no depot 'three'"):
            options.set(RECORDS, 1, depot="three")
        with pytest.raises(NotFoundError, match="no pstate 'three'"):
            options.unset(FLUSH, pstate="three")
        with pytest.raises(UsageError, match="several topologies"):
            options.get(RECORDS)
        with pytest.raises(NotFoundError, match="no option 'x'"):
            options.get("x", topology="mb")
        assert options.describe()["set"] == {}
        assert "<table>" in options._repr_html_()
    assert levels_of("x") == ()


def test_a_topology_runs_with_the_greatest_and_with_the_least_of_everything():
    """Set while it runs: it waits for the next record in between, and goes on."""
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(module())
        topology = app.topology("mb")
        count = 0
        for bound in (1, 0):
            for name in Options().by_name():
                app.options.set(name, bounds_of(name)[bound])
            app.depot("one").append(rows("abc"))
            count += 3
            topology.wait_processed(count)
        for name in Options().by_name():
            app.options.unset(name)
        assert app.options.describe()["set"] == {}
        assert topology.status()["error"] is None


def test_a_root_with_a_value_beyond_the_bounds_opens(tmp_path):
    """As an earlier version stored it: the topology runs, and it can be taken back."""
    name = "topology.microbatch.empty.sleep.time.millis"
    stored = Settings({"module": {"": {name: 10**17}}}, epoch=1)
    SettingsLog(LocalStore(tmp_path), "tuned").create(1, stored)
    with LocalCluster(root=tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module())
        assert app.options.get(name, topology="mb") == bounds_of(name)[1]
        app.depot("one").append(rows("abc"))
        app.topology("mb").wait_processed(3)
        app.options.unset(name)
        assert app.options.get(name, topology="mb") == Options().empty_sleep_millis
