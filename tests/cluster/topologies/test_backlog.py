"""A backlog of any records is worked off: by bytes, in pieces that fit, exactly once."""

from __future__ import annotations

import pyarrow as pa
import pytest

import atoll
from atoll import LocalCluster, Map, agg
from atoll.errors import TopologyFailedError

RECORDS = 600


def _module(room=None, error=MemoryError, **options):
    """Counts records by key; a step has no memory for batches of more rows than it has room for."""
    module = atoll.Module("backlog")
    depot = module.depot("d", "k long, text string", partition_by="k", partitions=2)
    topology = module.microbatch("t", vnode_count=4, options=options)
    counts = topology.pstate("counts", Map(int, int))
    stream = topology.source(depot)
    if room is not None:

        def hold(batches):
            for batch in batches:
                if batch.num_rows > room:
                    raise error("so many")
                yield batch

        stream = stream.map_batches(hold, emits="k long, text string")
    stream.aggregate(counts["k"], agg.count())
    return module


def _fill(app, size=10):
    """Append before the topology may run."""
    app.topology("t").pause()
    keys = pa.array(range(RECORDS), pa.int64())
    app.depot("d").append(pa.record_batch({"k": keys, "text": pa.array(["x" * size] * RECORDS)}))
    app.topology("t").resume()


def _counted_once(app):
    app.topology("t").wait_processed(RECORDS, timeout_seconds=120)
    assert app.pstate("counts").get() == dict.fromkeys(range(RECORDS), 1)


def test_fat_records_go_into_small_microbatches():
    """At 10 KB each, 50 into half a megabyte."""
    options = {"depot.microbatch.max.bytes": 500_000}
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(_module(**options))
        _fill(app, 10_000)
        _counted_once(app)
        status = app.topology("t").status()
        assert status["committed"] >= RECORDS * 10_000 // 500_000
        assert (status["cut"], status["cuts_total"]) == (None, 0)


def test_a_microbatch_too_large_for_the_memory_is_cut_until_it_fits():
    """By itself, and shown; whatever the limits say."""
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(_module(room=40))
        _fill(app)
        _counted_once(app)
        status = app.topology("t").status()
        assert status["attempts_failed_total"] == {"E-TOO-LARGE": status["cuts_total"]}
        assert status["cuts_total"] >= 2
        assert status["state"] == "running"


def test_a_record_too_large_by_itself_fails_the_topology_with_its_name():
    """The code, and what to do."""
    options = {"topology.microbatch.retry.max.attempts": 2}
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(_module(room=0, **options))
        _fill(app)
        with pytest.raises(TopologyFailedError):
            app.topology("t").wait_processed(RECORDS, timeout_seconds=120)
        status = app.topology("t").status()
        assert status["error"]["code"] == "E-TOO-LARGE"
        assert "map_batches" in status["error"]["message"]
        assert "memory" in status["error"]["hint"]
        assert status["cut"]["records"] == 1


def test_a_lower_option_and_a_resume_mend_a_topology_that_failed():
    """The plan that failed is cut to it; no record is lost or counted twice."""
    one = {"topology.microbatch.retry.max.attempts": 1}
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(_module(50, ValueError, **one))
        _fill(app)
        with pytest.raises(TopologyFailedError):
            app.topology("t").wait_processed(RECORDS, timeout_seconds=120)
        assert app.topology("t").status()["error"]["code"] == "E-USER-CODE"
        app.options.set("depot.microbatch.max.records", 20)
        app.topology("t").resume()
        _counted_once(app)
