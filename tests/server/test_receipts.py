"""Waiting and reading by what an append answered, over HTTP: read your writes anywhere."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient

import atoll
from atoll import Map, agg, start
from atoll.server import create_app
from atoll.testing import TopologyTestDriver

MODULE = "/v1/modules/told"
RECORDS = f"{MODULE}/depots/words/records"


@pytest.fixture(scope="module")
def driver():
    """A module that moves only while somebody waits."""
    module = atoll.Module("told")
    words = module.depot("words", "word string")
    other = module.depot("other", "v long")
    mb = module.microbatch("mb", vnode_count=1)
    counts = mb.pstate("counts", Map(str, int))
    mb.source(words, start_from=start.beginning()).aggregate(counts["word"], agg.count())
    still = module.microbatch("still", vnode_count=1)
    total = still.pstate("total", int, initial=0)
    still.source(other, start_from=start.beginning()).aggregate(total, agg.sum("v"))
    module.query("how_many", word=str).lookup(counts["word"], "n").returns("n")
    with TopologyTestDriver(module, engine="inline") as made:
        yield made


@pytest.fixture
def client(driver):
    """A client of the service."""
    with TestClient(create_app(driver.app), base_url="http://127.0.0.1:7410") as made:
        yield made


def appended(client, word, **parameters):
    """The answer to an append of one word."""
    answer = client.post(RECORDS, json={"word": word}, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def select(client, pstate, word, **parameters):
    """The answer to a read of one count."""
    wanted = {"path": [["key", word]] if word else [], "one": True}
    return client.post(f"{MODULE}/pstates/{pstate}/select", json=wanted, params=parameters)


def test_an_append_may_be_answered_when_it_is_processed(client):
    """Then the next read shows it; without that it does not."""
    told = appended(client, "a")
    assert "committed" not in told
    assert select(client, "counts", "a").json() != {"value": 1}
    told = appended(client, "b", ack="processed")
    assert set(told["committed"]) == {"mb"}
    assert select(client, "counts", "b").json() == {"value": 1}


def test_a_token_is_waited_for_and_read_with(client):
    """In a select, a query and a subscription, and by itself."""
    token = appended(client, "c")["token"]
    assert select(client, "counts", "c", after=token).json() == {"value": 1}
    token = appended(client, "d")["token"]
    asked = client.post(
        f"{MODULE}/queries/how_many", json={"arguments": {"word": "d"}}, params={"after": token}
    )
    assert asked.json() == {"answer": 1}
    token = appended(client, "e")["token"]
    answer = client.post(f"{MODULE}/wait", json={"tokens": [token, token]})
    assert set(answer.json()["committed"]) == {"mb"}
    assert select(client, "counts", "e").json() == {"value": 1}


def test_a_subscription_may_begin_with_what_was_appended(driver):
    """With the value that shows it, not the one before."""
    receipt = driver.depot("words").append({"word": "f"})
    with driver.app.subscribe("counts", after=receipt.token) as changes:
        first = changes.next(0)
    assert (first.kind, first.new["f"]) == ("snapshot", 1)


def test_what_is_no_token_or_never_comes(client, driver):
    """Each by a problem that says which: 400, 404, 504, and what is stored all the same."""
    broken = select(client, "counts", "a", after="r123")
    assert (broken.status_code, broken.json()["code"]) == (400, "E-RECEIPT")
    assert select(client, "counts", "a", after="r" * 65_000).status_code == 400
    for tokens in ([], ["r"] * 65, ["r" * 70_000]):
        assert client.post(f"{MODULE}/wait", json={"tokens": tokens}).status_code == 422
    token = appended(client, "g")["token"]
    never = select(client, "total", None, after=token)
    assert (never.status_code, never.json()["code"]) == (400, "E-RECEIPT")
    both = select(client, "counts", "a", after=token, as_of=0)
    assert (both.status_code, both.json()["code"]) == (400, "E-USAGE")
    driver.app.pause()
    late = client.post(RECORDS, json={"word": "h"}, params={"ack": "processed"})
    problem = late.json()
    assert (late.status_code, problem["code"]) == (504, "E-WAIT-TIMEOUT")
    assert problem["hint"].startswith("the records are stored, do not append them again")
    assert problem["context"]["stored"]["appended"] == 1
    late = select(client, "counts", "h", after=problem["context"]["stored"]["token"])
    assert late.status_code == 504
    driver.app.resume()
    told = problem["context"]["stored"]["token"]
    assert select(client, "counts", "h", after=told).json() == {"value": 1}
    assert json.dumps(told)
