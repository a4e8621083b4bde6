"""When rows are processed, as a column: that of the plan, in every attempt and every life."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest

import atoll
from atoll import List, Map, agg
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver


def build(vnodes=4, partitions=2, column="seen"):
    """Counts by ten seconds of processing time, and the times themselves."""
    module = atoll.Module("processing")
    rows = module.depot("rows", "k string, n long", partition_by="k", partitions=partitions)
    mb = module.microbatch("mb", vnode_count=vnodes)
    counts = mb.pstate("counts", Map(str, Map(dt.datetime, int)))
    times = mb.pstate("times", Map(str, List(dt.datetime)))
    timed = mb.source(rows).with_processing_time(column)
    timed.window("seen", "10 seconds").aggregate(counts["k"]["window_start"], agg.count())
    timed.aggregate(times["k"], agg.collect_list("seen"))
    return module


@pytest.mark.parametrize(("vnodes", "partitions"), [(1, 1), (16, 3)])
def test_the_time_is_the_plans(vnodes, partitions):
    """A retry, and a life after a kill between plan and commit, see the time of the plan."""
    dice = random.Random(vnodes)
    wanted = Counter()
    with TopologyTestDriver(build(vnodes, partitions)) as driver:
        for _ in range(12):
            keys = [dice.choice("abc") for _ in range(dice.randint(1, 9))]
            driver.depot("rows").append([{"k": key, "n": 1} for key in keys])
            driver.advance(dice.choice([0, 1.5, 7]))
            now = dt.datetime.fromtimestamp(driver.clock.now_ms() / 1000, dt.UTC)
            wanted.update((key, now) for key in keys)
            if dice.random() < 0.4:
                assert driver.step() == "prime"
                driver.advance(25)
                driver.restart()
            if dice.random() < 0.4:
                driver.fail_next_attempt(after_work=True)
            driver.microbatch()
        times = driver.pstate("times").get()
        counts = driver.pstate("counts").get()
    assert Counter((k, at) for k, of in times.items() for at in of) == wanted
    windows = Counter()
    for (key, at), count in wanted.items():
        windows[key, at.replace(second=at.second // 10 * 10, microsecond=0)] += count
    assert Counter({(k, at): n for k, of in counts.items() for at, n in of.items()}) == windows


def test_a_column_that_is_there_is_refused():
    """With the place, when the module is deployed."""
    with (
        pytest.raises(DeclarationError, match="adds a column 'n'") as error,
        TopologyTestDriver(build(column="n")),
    ):
        pass
    assert "test_processing_time.py" in error.value.context["declared"]


@pytest.mark.parametrize("column", ["a + b", 7])
def test_the_column_is_a_name(column):
    """On the user's line."""
    with pytest.raises(DeclarationError, match="with_processing_time takes the name of a column"):
        build(column=column)
