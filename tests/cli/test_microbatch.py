"""``atoll microbatch`` and its route: what a topology is at, as Python says it."""

from __future__ import annotations

import json
import urllib.request

import pytest

from atoll import LocalCluster, Map, Module, agg
from atoll.server import create_app


@pytest.fixture
def served(tmp_path, service, monkeypatch):
    """A topology that has committed one microbatch and rests, and where it is served."""
    module = Module("shop")
    sales = module.depot("sales", "user string", partition_by="user", partitions=2)
    mb = module.microbatch("mb", vnode_count=4)
    mb.source(sales).aggregate(mb.pstate("counts", Map(str, int))["user"], agg.count())
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module)
        app.depot("sales").append([{"user": "ann"}, {"user": "bob"}])
        app.topology("mb").wait_processed(2)
        app.topology("mb").pause()
        service.application = create_app(app)
        monkeypatch.setenv("ATOLL_URL", service.url)
        yield app.topology("mb"), service.url


def test_the_microbatch_state_is_the_same_from_python_http_and_the_command_line(served, atoll):
    """Id, version, phase, ranges and since when."""
    topology, url = served
    place = f"{url}/v1/modules/shop/topologies/mb"
    with urllib.request.urlopen(f"{place}/microbatches") as answer:
        (told,) = json.load(answer)["microbatches"]
    assert (told["id"], told["records"], told["failed_attempts"]) == (1, 2, 0)
    known = topology.microbatch_state.get()
    assert (known["id"], known["version"], known["phase"]) == (1, 1, "idle")
    with urllib.request.urlopen(f"{place}/microbatch") as answer:
        assert json.load(answer) == known
    assert json.loads(atoll("microbatch", "shop", "mb", "-o", "json").out) == known
    head, _, *rows = atoll("microbatch", "shop", "mb").out.splitlines()
    assert head.split()[:4] == ["id", "version", "phase", "since"]
    assert len(rows) == 2
    assert "sales" in rows[0]
    assert atoll("microbatch", "shop", "nothing").code != 0


def test_microbatches_of_an_earlier_life_are_listed(tmp_path, service):
    """With null for what only that life knew; each is at its own address, too."""
    module = Module("shop")
    sales = module.depot("sales", "user string")
    mb = module.microbatch("mb", vnode_count=1)
    mb.source(sales).aggregate(mb.pstate("counts", Map(str, int))["user"], agg.count())
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module)
        app.wait(app.depot("sales").append({"user": "ann"}))
    with LocalCluster(tmp_path, engine="inline") as cluster:
        service.application = create_app(cluster.deploy(module))
        place = f"{service.url}/v1/modules/shop/topologies/mb/microbatches"
        with urllib.request.urlopen(place) as answer:
            (told,) = json.load(answer)["microbatches"]
        assert (told["id"], told["records"], told["failed_attempts"]) == (1, 1, 0)
        assert (told["total"], told["vnodes"]) == (None, {"counts": 1})
        with urllib.request.urlopen(f"{place}/1") as answer:
            assert json.load(answer)["operators"] is None
