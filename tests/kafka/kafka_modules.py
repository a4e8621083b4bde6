"""Modules that read topics, and clusters that run them in this process."""

from __future__ import annotations

import json

import atoll
from atoll import Kafka, Map, Module, agg, start

SCHEMA = "k string NOT NULL, v long"


def sums(topics, topic, *, schema=SCHEMA, name="sums", dead=True, **given):
    """A module that sums ``v`` by ``k`` from the beginning of a topic."""
    module = Module(name)
    kafka = Kafka(topics.address, topic, **given)
    bids = module.depot("bids", schema, kafka=kafka)
    mb = module.microbatch("mb", dead_letter=module.dead_letter_depot("bad") if dead else None)
    totals = mb.pstate("totals", Map(str, int))
    mb.source(bids, start_from=start.beginning()).aggregate(totals["k"], agg.sum("v"))
    return module


def record(k, v, **more):
    """A message's value."""
    return json.dumps({"k": k, "v": v, **more})


def running(tmp_path):
    """A cluster without Spark, on a root of the test's."""
    return atoll.LocalCluster(tmp_path / "root", engine="inline")
