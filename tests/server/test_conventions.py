"""Conventions that hold for every route: HEAD, strict bodies, all statuses described."""

from __future__ import annotations

import pytest
from fakes import FakeApp

from atoll.server import create_app

MODULE = "/v1/modules/key-pairs"
SELECT = f"{MODULE}/pstates/global_sum/select"


def test_the_head_of_whatever_can_be_got(client):
    """The same status and headers, no body; what would stream for ever ends."""
    for path in ("/v1/modules", MODULE, "/healthz", "/metrics", f"{MODULE}/pstates/no"):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    head = client.head(f"{MODULE}/pstates/global_sum/subscribe")
    assert (head.status_code, head.content) == (200, b"")
    assert not client.app.state.context.subscriptions


@pytest.mark.parametrize(
    "body",
    [
        '{"path": [], "one": 0}',
        '{"path": [], "one": "true"}',
        '{"path": [], "one": null}',
        '{"path": "[]"}',
    ],
)
def test_nothing_passes_for_a_boolean_or_an_array(client, body):
    """0, a text and null are no false."""
    answer = client.post(SELECT, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "E-USAGE")


@pytest.mark.parametrize("flag", ["1", "yes", "True", ""])
def test_flags_in_addresses_are_true_or_false(client, flag):
    """And nothing else."""
    answer = client.get(f"{MODULE}/pstates/global_sum/value", params={"one": flag})
    assert answer.status_code == 422
    assert client.get(f"{MODULE}/pstates/global_sum/value", params={"one": "true"}).is_success


@pytest.mark.parametrize(
    "body",
    ['{"path": [], "path": [["key", "a"]]}', '{"path": [["sorted_range", {"end": 1, "end": 2}]]}'],
)
def test_a_member_that_is_named_twice(client, body):
    """Is refused, at any depth: the one and the other would mean different things."""
    answer = client.post(SELECT, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert "twice" in answer.json()["detail"]


def test_every_status_is_described():
    """With the type of problems, for every operation; the producer's headers for appends."""
    described = create_app(FakeApp()).openapi()
    assert described["openapi"].startswith("3.1")
    problem = described["components"]["responses"]["404"]["content"]
    assert list(problem) == ["application/problem+json"]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            told = {int(each) for each in operation["responses"]}
            assert told >= {400, 401, 403, 404, 405, 422, 429, 503}, (path, method)
            if method != "get":
                assert told >= {409, 413, 415}, (path, method)
    append = described["paths"]["/v1/modules/{module}/depots/{depot}/records"]["post"]
    names = {each["name"] for each in append["parameters"] if each["in"] == "header"}
    assert names >= {"Atoll-Producer-Id", "Atoll-Producer-Sequence", "Atoll-Producer-Epoch"}
    assert "HTTPValidationError" not in str(described)
