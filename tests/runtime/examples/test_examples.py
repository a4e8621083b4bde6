"""The examples of runtimes do what their pages say; "Scaling out" on Spark, counting its jobs."""

from __future__ import annotations

import importlib.util
import json
import statistics
import time
from pathlib import Path

import pytest

from atoll.cluster.local import LocalCluster
from atoll.runtime.definition.read import parse_definition
from atoll.runtime.service.runtimes import Runtimes
from atoll.runtime.service.showing import actor_stats
from atoll.runtime.snapshots.counting import STEPS
from atoll.runtime.snapshots.worker import snapshot_tag

EXAMPLES = Path(__file__).parents[3] / "examples" / "runtimes"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json")), ids=lambda file: file.stem)
def test_definitions_are_right(file):
    """Each reads without a problem."""
    assert parse_definition(file.read_bytes()).name


def run(tmp_path, name, actor, events):
    """The example's runtime after some events, and what its file holds."""
    given = json.loads((EXAMPLES / f"{name}.json").read_text())
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        runtime = runtimes.start(runtimes.create(given))
        running = runtimes.running(runtime)
        running.send(actor, events)
        running.wait_all()
        end = time.monotonic() + 20
        while runtimes.effects(runtime)["waiting"]:
            assert time.monotonic() < end
            time.sleep(0.01)
        runtimes.close()
    (file,) = (tmp_path / runtime.module / "files").iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_orders_are_chosen_enriched_and_written(tmp_path):
    """The stateless one."""
    events = [{"amount": 99, "city": "ghent"}, {"amount": 100, "city": "ghent"}, {"amount": 500}]
    written = run(tmp_path, "orders", "large", events)
    assert written == [{"amount": 100, "city": "ghent", "country": "belgium"}]


def test_outliers_are_found_by_customer(tmp_path):
    """What is usual for one customer is not for the other."""
    usual = [{"customer": "a", "amount": 10 + at % 3} for at in range(30)]
    usual += [{"customer": "b", "amount": 1000 + at % 3} for at in range(30)]
    odd = {"customer": "a", "amount": 1001}
    written = run(tmp_path, "outliers", "input", [*usual, odd, {"customer": "b", "amount": 1001}])
    assert written == [{**odd, "outlier": True}]


def test_scaling_out_on_spark():
    """25 instances: drift under calc-local, the same statistics after one Spark job."""
    spec = importlib.util.spec_from_file_location("scaling_out", EXAMPLES / "scaling_out.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with LocalCluster() as cluster:
        before, after, calculator, running = example.main(cluster)
        session = running.app.engine.session
        tag = snapshot_tag(running, "meter", 1)
        jobs = session.sparkContext.statusTracker().getJobIdsForGroup(tag)
        assert len(jobs) == 1
        assert set(before[1]).isdisjoint(before[2])
        assert len({average for each in before.values() for average in each}) == 25
        assert len(after) == 25
        assert {each["snapshot"] for each in after} == {1}
        states = [each["state"] for each in after]
        assert states == [states[0]] * 25
        assert states[0]["count"] == 1000
        assert states[0]["avg"] == pytest.approx(statistics.fmean(range(1000)))
        assert states[0]["sd"] == pytest.approx(statistics.pstdev(range(1000)))
        assert (calculator["crossings"], calculator["superseded"]) == (1, 0)
        counts = [1, 25, 1000, 1, 1, 1, 25]
        assert calculator["steps"] == dict(zip(STEPS, counts, strict=True))
        shown = actor_stats(running, "meter", 2)
        assert len(shown["instances"]) == 5
