"""Readers outside the process that runs a module."""

from __future__ import annotations

import atoll
from atoll import Map, agg, start
from atoll.testing import TopologyTestDriver


def test_a_reader_that_was_idle_for_long_reads_the_last_commit(tmp_path):
    """Neither the commit that it knows nor the one after it is there any more."""
    module = atoll.Module("idle")
    depot = module.depot("depot", "k string, v long", partitions=1)
    mb = module.microbatch(
        "mb",
        vnode_count=4,
        options={"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 5},
    )
    last = mb.pstate("last", Map(str, int))
    mb.source(depot, start_from=start.beginning()).aggregate(last["k"], agg.last("v"))

    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:

        def put(value):
            driver.depot("depot").append([{"k": "a", "v": value}])
            driver.microbatch()

        fresh = atoll.connect(tmp_path, "idle").pstate("last")
        assert fresh.get("a") is None
        put(1)
        known = atoll.connect(tmp_path, "idle").pstate("last")
        assert known.get("a") == 1
        for value in range(2, 40):
            put(value)
        assert not (tmp_path / "idle" / "mb" / "commits" / f"{2:020d}").exists()
        assert known.get("a") == 39
        assert fresh.get("a") == 39
        driver.app.topology("mb").rollback(38)
        assert known.get("a") == 38
        driver.app.topology("mb").resume()
        driver.run_until_idle()
        put(40)
        assert known.get("a") == 40
