"""Decimals of extreme exponents on their whole way: refused where they come up, nothing dies."""

from __future__ import annotations

from decimal import Decimal

import httpx
import pytest

import atoll
from atoll import LocalCluster, Map, agg
from atoll.errors import AtollError
from atoll.server import create_app, serve
from atoll.server.serve import bind

ROW = "k string, a decimal(38,18)"
TINY = Decimal("1E-10000000")


def test_over_http(tmp_path):
    """The service answers with the line and the column, and takes the next record."""
    module = atoll.Module("extremes")
    depot = module.depot("d", ROW, partition_by="k")
    mb = module.microbatch("mb", vnode_count=2)
    p = mb.pstate("p", Map(str, int))
    mb.source(depot).aggregate(p["k"], agg.count())
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module)
        with serve(create_app(app), bind("127.0.0.1", 0)) as address:
            url = f"{address.url}/v1/modules/extremes/depots/d/records"
            bodies = {
                "application/x-ndjson": '{"k":"a","a":1E-10000000}\n',
                "text/csv": "k,a\na,1E-10000000\n",
            }
            for media_type, body in bodies.items():
                answer = httpx.post(url, content=body, headers={"content-type": media_type})
                assert 400 <= answer.status_code < 500
                assert "column a: the value does not fit decimal(38,18)" in answer.text
            body = '{"k":"a","a":0E-99999999}'
            good = httpx.post(url, content=body, headers={"content-type": "application/x-ndjson"})
            assert good.json()["appended"] == 1


def test_append_refuses_it(tmp_path):
    """In the process of whoever appends, by line and column."""
    module = atoll.Module("extremes")
    module.depot("d", ROW, partition_by="k")
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module)
        with pytest.raises(AtollError) as caught:
            app.depot("d").append({"k": "a", "a": TINY})
        assert caught.value.context["refusals"][0]["reason"].startswith("column a: ")
