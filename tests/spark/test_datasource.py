"""A whole PState as a DataFrame: what happens when the topology goes on while it is read."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, agg
from atoll.errors import UsageError
from atoll.placement.reschedule.change import UnitChange
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


def test_a_scan_is_divided_by_who_owns_which_vnodes_now(tmp_path):
    """Also after a reschedule, and for a reader that only knows the root; ``groups`` goes before.

    A root whose placement cannot be read is read all the same.
    """
    root = tmp_path / "root"
    module = atoll.Module("shop")
    rows = module.depot("rows", "k long")
    mb = module.microbatch("mb", vnode_count=8)
    mb.source(rows).aggregate(mb.pstate("counts", Map(int, int))["k"], agg.count())
    options = {"root": str(root), "module": "shop", "pstate": "counts"}

    def divided(**more):
        reader = _Reader({**options, **more})
        groups = reader.partitions()
        assert sum(len(batch) for group in groups for batch in reader.read(group)) == 9
        return [group.vnodes for group in groups]

    with atoll.LocalCluster(root, engine="inline", parallelism=3) as cluster:
        app = cluster.deploy(module)
        app.depot("rows").append([{"k": key} for key in range(9)])
        app.topology("mb").wait_processed(9)
        for change in (UnitChange((), ()), UnitChange((), (1,))):
            revision = app.cluster.info().revision
            app.cluster.reschedule({2: change}, revision=revision)
            owners = app.cluster.info().fragment(2).mapping
            assert divided() == [owners.vnodes(unit) for unit in owners.unit_ids()]
        assert len(divided()) == 2
        assert len(divided(groups="3")) == 3
        for path in (root / "meta" / "cluster").iterdir():
            path.write_bytes(b"x")
        assert len(divided()) == 4
