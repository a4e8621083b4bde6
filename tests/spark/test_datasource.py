"""A whole PState as a DataFrame: what happens when the topology goes on while it is read."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, agg
from atoll.errors import UsageError
from atoll.spark.datasource import _Reader, _VnodeGroup


def test_a_commit_that_was_dropped_while_it_was_read_is_no_damage(tmp_path):
    """The tasks of a slow read come late: what they look for is gone, and the error says why."""
    module = atoll.Module("shop")
    rows = module.depot("rows", "k long")
    options = {
        "pstate.history.microbatches": 2,
        "pstate.history.seconds": 0,
        "pstate.checkpoint.interval.commits": 2,
    }
    mb = module.microbatch("mb", vnode_count=4, options=options)
    mb.source(rows).aggregate(mb.pstate("counts", Map(int, int))["k"], agg.count())
    with atoll.LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(module)

        def round_of_records(number):
            app.depot("rows").append([{"k": key} for key in range(9)])
            app.topology("mb").wait_processed(9 * number)

        round_of_records(1)
        reader = _Reader({"root": str(tmp_path / "root"), "module": "shop", "pstate": "counts"})
        groups = reader.partitions()
        assert sum(len(batch) for group in groups for batch in reader.read(group)) == 9
        for number in range(2, 12):
            round_of_records(number)
        app.topology("mb").pause()
        late = groups[0]
        assert isinstance(late, _VnodeGroup)
        with pytest.raises(UsageError, match="was dropped while it was read") as raised:
            list(reader.read(late))
        assert "pstate.history.seconds" in (raised.value.hint or "")
