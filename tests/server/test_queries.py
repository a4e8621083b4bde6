"""Queries over HTTP: arguments as JSON, answers, and mistakes as problems."""

from __future__ import annotations

import datetime as dt

import pytest
from starlette.testclient import TestClient

import atoll
from atoll import List, Map, agg, start
from atoll.server import create_app
from atoll.testing import TopologyTestDriver

ROUTE = "/v1/modules/asked/queries"


@pytest.fixture
def client(tmp_path):
    """A client of a module with state and queries."""
    module = atoll.Module("asked")
    depot = module.depot("words", "word string", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    counts = mb.pstate("counts", Map(str, int))
    mb.source(depot, start_from=start.beginning()).aggregate(counts["word"], agg.count())
    counted = module.query("counted", words=List(str))
    counted.explode("words", "word").lookup(counts["word"], "n").select("word", "n").returns(
        rows="all"
    )
    later = module.query("later", at=dt.datetime)
    later.map(lambda row: {"at": row.at + dt.timedelta(days=1)}, emits="at timestamp").returns("at")
    module.query("raises").map(lambda row: {"n": 1 // 0}, emits="n long").returns("n")
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        driver.depot("words").append([{"word": word} for word in "aab"])
        driver.microbatch()
        with TestClient(create_app(driver.app), base_url="http://127.0.0.1:7410") as found:
            yield found


def test_what_there_is(client):
    """Names, parameters, what is returned."""
    assert client.get(ROUTE).json() == {"queries": ["counted", "later", "raises"]}
    assert client.get(f"{ROUTE}/counted").json() == {
        "name": "counted",
        "parameters": {"words": {"list": "str"}},
        "returns": {"column": None, "rows": "all"},
    }


def test_answers(client):
    """Texts stand for what JSON lacks."""
    answer = client.post(f"{ROUTE}/counted", json={"arguments": {"words": ["a", "x"]}})
    assert answer.json() == {"answer": [{"word": "a", "n": 2}, {"word": "x", "n": None}]}
    at = {"arguments": {"at": "2026-02-28T12:00:00Z"}, "timeout_seconds": 5}
    answer = client.post(f"{ROUTE}/later", json=at)
    assert answer.json() == {"answer": "2026-03-01T12:00:00Z"}


def test_mistakes_are_problems(client):
    """Named as in Python."""
    for name, body, status, code in (
        ("none", {}, 404, "E-NOT-FOUND"),
        ("counted", {}, 400, "E-USAGE"),
        ("counted", {"arguments": {"words": "a"}}, 400, "E-USAGE"),
        ("counted", {"arguments": {"words": []}, "timeout_seconds": 0}, 422, "E-USAGE"),
        ("counted", {"words": []}, 422, "E-USAGE"),
        ("raises", {}, 422, "E-USER-CODE"),
        ("later", {"arguments": {"at": "x"}}, 400, "E-USAGE"),
    ):
        answer = client.post(f"{ROUTE}/{name}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), (name, body)
    assert client.get(f"{ROUTE}/none").status_code == 404
    missing = client.post(f"{ROUTE}/counted", json={}).json()
    assert missing["detail"] == "query 'counted' needs the argument 'words'"
