"""Requests that mean ill, or nothing: each is a 4xx in the usual shape, and nothing is broken."""

from __future__ import annotations

import random

import pytest

NAMES = (
    "../../etc/passwd",
    "..%2f..%2fmeta",
    "%2e%2e",
    "a/b",
    "a\\b",
    "r.0",
    "r.999999999999999999999",
    "r.-1",
    "r..1",
    "r.1.1",
    "%00",
    "r%00",
    "-",
    "coral-",
    "é",
    "a" * 5_000,
    "' or 1=1",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "con",
    "actors",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("below", ["", "/stats", "/actors/x", "/actors/x/stats", "/x/stats"])
def test_a_reference_that_names_nothing_is_a_404(client, name, below):
    """Whatever it looks like: it is compared with names, never a path or a pattern."""
    assert client.get(f"/api/runtimes/{name}{below}").status_code in (200, 404)
    assert client.delete(f"/api/runtimes/{name}").status_code in (404, 405)


BODIES = (
    b"",
    b"{",
    b"[]",
    b"nul",
    b"\xff\xfe",
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"a": 1, "a": 2}',
    b'{"a": "\\ud800"}',
    b'{"a": "\\u0000"}',
    b'{"a": ' + b"9" * 400 + b"}",
    b'"' + b"x" * 300_000 + b'"',
    b'{"status": "start", "more": 1}',
    b'{"distribution": {"copies": 0}}',
    b'{"distribution": {"copies": 257}}',
    b'{"distribution": {"copies": true}}',
    b'{"distribution": {"copies": "4; drop"}}',
    b'{"state": "drop"}',
)
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies_that_are_none_are_refused_with_a_reason(client, definition, body):
    """Made, changed, sent, shunted: a 400 (or 413) that says why, and the runtime goes on."""
    client.post("/api/runtimes", json=definition)
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    actor = "/api/runtimes/runtime1/actors/low"
    answers = [
        client.post("/api/runtimes", content=body, headers=JSON),
        client.patch("/api/runtimes/runtime1", content=body, headers=JSON),
    ]
    if body not in BODIES[13:]:
        answers += [client.post(f"{actor}/shunt", content=body, headers=JSON)]
        if body != b"[]":  # no events are no mistake
            answers += [client.post(actor, content=body, headers=JSON)]
    for answer in answers:
        assert answer.status_code in (400, 413), answer.text
        told = answer.json()
        assert told["success"] is False
        assert told["reason"]
        assert told["code"].startswith("E-")
    assert client.post(f"{actor}/shunt", json={"v": 11}).json()["emitted"] == [{"v": 11}]


def test_random_requests_find_no_fault_of_the_service(client, definition):
    """Verbs, addresses and bodies at random, with a fixed seed: never a 5xx."""
    chance = random.Random(15)
    client.post("/api/runtimes", json=definition)
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    parts = ["runtimes", "runtime1", "runtime1.1", "actors", "low", "shunt", "stats", "links", "x"]
    values = [None, 1, "start", [], {}, {"v": 3}, [{"v": 1}, 2], {"status": "start"}, {"v": None}]
    for _ in range(300):
        verb = chance.choice(["GET", "POST", "PATCH", "PUT", "HEAD", "OPTIONS"])
        path = "/".join(chance.choice(parts) for _ in range(chance.randrange(1, 6)))
        address = f"/api/{path}" if chance.random() < 0.3 else f"/api/runtimes/runtime1/{path}"
        answer = client.request(verb, address, json=chance.choice(values))
        assert answer.status_code < 500, (verb, address, answer.text)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/runtimes", "DELETE, GET, POST"),
        ("/api/runtimes/r", "DELETE, GET, PATCH"),
        ("/api/runtimes/r/actors/a", "GET, POST"),
        ("/api/runtimes/r/actors/a/shunt", "POST"),
    ],
)
def test_a_method_that_there_is_not_is_told_all_that_there_are(client, path, allowed):
    """The hint says to look there."""
    refused = client.options(path)
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize("body", [b"x" * (2 << 20), iter([b"x" * (2 << 20)])], ids=["told", "not"])
def test_a_definition_that_is_too_large_is_not_sent_to_a_stream_that_takes_none(client, body):
    """Only depots take records without end."""
    refused = client.post("/api/runtimes", content=body, headers=JSON)
    assert refused.status_code == 413
    assert "no limit" not in refused.json()["hint"]
