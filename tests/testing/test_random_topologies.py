"""Random topologies give what plain Python makes of them, on the driver, inline and on Spark."""

from __future__ import annotations

import pytest
import random_topologies as topologies
from hypothesis import HealthCheck, Phase, example, given, settings

import atoll
from atoll.testing import TopologyTestDriver

_SETTINGS = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
    "derandomize": True,
}


def _read(case, app):
    names = [f"{kind}_{index}" for kind, index in case.ends]
    return {name: topologies.comparable(name, app.pstate(name).get()) for name in names}


def _by_hand(case):
    """With one microbatch or more per stretch, and attempts that fail after their work."""
    with TopologyTestDriver(topologies.build(case), parallelism=case.parallelism) as driver:
        for number, stretch in enumerate(topologies.feed(case)):
            for depot, records in stretch.items():
                driver.depot(depot).append(records)
            if number in case.failures:
                driver.fail_next_attempt(after_work=True)
            driver.run_until_idle()
        return _read(case, driver.app)


def _by_itself(case, cluster, name):
    app = cluster.deploy(topologies.build(case, name))
    for stretch in topologies.feed(case):
        for depot, records in stretch.items():
            app.depot(depot).append(records)
    app.topology("mb").wait_processed(len(case.records))
    return _read(case, app)


_ONE_JOIN = topologies.Node("join", (0, 0), (0,), ordered=False, joined=True)
_SAME_JOIN_TWICE = topologies.Case(
    nodes=(topologies.Node("source", numbers=(0,)), _ONE_JOIN, _ONE_JOIN),
    ends=(("count", 1), ("count", 2)),
    records=((0, "a", 1), (0, "b", 2), (0, "a", 3)),
    cuts=(1,),
    vnodes=1,
    partitions=1,
    parallelism=1,
    limit=1,
)


@given(case=topologies.cases())
@example(case=_SAME_JOIN_TWICE)
@settings(max_examples=25, **_SETTINGS)
def test_the_driver_is_plain_python(case):
    """Equal for every PState of an end."""
    assert topologies.expected(case) == _by_hand(case)


@given(case=topologies.cases())
@settings(max_examples=10, **_SETTINGS)
def test_the_driver_and_a_running_cluster_agree(case):
    """Threads, and microbatches that begin when they like, change nothing."""
    with atoll.LocalCluster(engine="inline", parallelism=case.parallelism) as cluster:
        assert _by_hand(case) == _by_itself(case, cluster, "random")


@pytest.mark.slow
def test_the_driver_and_spark_agree():
    """A handful: each takes seconds."""
    count = 0
    with atoll.LocalCluster() as cluster:

        @given(case=topologies.cases(most_records=25))
        @settings(max_examples=5, **{**_SETTINGS, "phases": (Phase.generate,)})
        def agree(case):
            nonlocal count
            count += 1
            name = f"random{count}"
            assert topologies.expected(case) == _by_hand(case)
            assert _by_hand(case) == _by_itself(case, cluster, name)

        agree()
    assert count == 5
