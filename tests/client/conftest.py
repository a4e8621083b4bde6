"""One module, held in two ways: as the app in its process, and over a connection."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

import pytest

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.server import create_app, serve
from atoll.server.serve import bind


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


@dataclass
class Order:
    """A declared row."""

    day: dt.date
    price: Decimal
    name: str


def declared():
    """A module with values of many types, a query, two topologies and a rejecting schema."""
    module = atoll.Module("shop")
    words = module.depot("words", "word string NOT NULL, n long", partition_by="word", partitions=2)
    orders = module.depot("orders", "day date, price decimal(12,2), name string, at timestamp")
    mb = module.microbatch("mb", vnode_count=4, options={"pstate.history.microbatches": 50})
    counts = mb.pstate("counts", Map(str, int))
    mb.source(words, start_from=start.beginning()).aggregate(counts["word"], agg.sum("n"))
    days = module.microbatch("days", vnode_count=4)
    takings = days.pstate("takings", Map(dt.date, Map(Decimal, int)))
    names = days.pstate("names", dict[dt.date, set[str]])
    total = days.pstate("total", int, initial=0)
    stream = days.source(orders, start_from=start.beginning())
    stream.aggregate(takings["day"]["price"], agg.count())
    stream.aggregate(names["day"], agg.collect_set("name"))
    stream.aggregate(total, agg.count())
    module.query("how_many", word=str).lookup(counts["word"], "n").returns("n")
    return module, names


@pytest.fixture(scope="session")
def _served():
    """The module, running and served."""
    module, names = declared()
    with LocalCluster(engine="inline", parallelism=2) as cluster:
        app = cluster.deploy(module)
        with serve(create_app(app), bind("127.0.0.1", 0)) as address:
            yield app, address.url, names


@pytest.fixture(params=["local", "connected"])
def app(request, _served):
    """The module, held in either way."""
    local, url, _ = _served
    if request.param == "local":
        yield local
        return
    with atoll.connect(url) as connected:
        yield connected


@pytest.fixture
def names(_served):
    """What declared the PState of sets."""
    return _served[2]


@pytest.fixture
def url(_served):
    """Where it is served."""
    return _served[1]
