"""Runtimes over HTTP: their life, their actors, and a code that says what was wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import until

from atoll.errors import ConflictError

JSON_LINES = {"content-type": "application/x-ndjson"}


def wait(runtimes, name):
    """Until all that was accepted is processed."""
    runtimes.running(runtimes.find(name)[0]).wait_all()


def test_case_29_the_life_of_a_runtime(client, definition):
    """Made, found by three names, started, stopped, deleted; and all of them deleted."""
    assert client.get("/api/runtimes").json() == []
    assert client.get("/api/runtimes/runtime1").status_code == 404
    made = client.post("/api/runtimes", json=definition)
    assert made.status_code == 201
    assert made.json()["success"] is True
    assert list(made.json()["definition"])[:2] == ["name", "owner"]
    for name in ("runtime1", "coral-runtime1", made.json()["id"]):
        found = client.get(f"/api/runtimes/{name}")
        assert (found.status_code, found.json()["status"]) == (200, "created")
    for status, then in (("start", "running"), ("stop", "stopped"), ("start", "running")):
        changed = client.patch("/api/runtimes/runtime1", json={"status": status})
        assert (changed.status_code, changed.json()["success"]) == (200, True)
        assert client.get("/api/runtimes/runtime1").json()["status"] == then
    deleted = client.delete("/api/runtimes/runtime1")
    assert deleted.json()["name"] == "coral-runtime1"
    assert client.get("/api/runtimes/runtime1").status_code == 404
    assert client.post("/api/runtimes", json=definition).json()["name"] == "runtime2"
    client.post("/api/runtimes", json={**definition, "name": "other"})
    results = client.delete("/api/runtimes").json()["results"]
    assert results == [{"coral-runtime2": True}, {"coral-other": True}]
    assert client.get("/api/runtimes").json() == []


def test_case_30_with_any_credentials_or_none_everybody_is_let_in(client):
    """As in Coral's mode accept-all: nobody is asked who they are yet."""
    for auth in (None, ("nobody", "wrong"), ("", "")):
        assert client.get("/api/runtimes", auth=auth).status_code == 200


def test_a_runtime_that_is_not_here_makes_the_service_unhealthy(client, runtimes, definition):
    """Its failure is told where one looks, and by the runtime itself."""
    client.post("/api/runtimes", json=definition)
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    runtime = runtimes.find("runtime1")[0]
    runtimes._lives.here[runtime.id].failure = ConflictError("it cannot be", hint="none")
    assert client.get("/healthz").json()["modules"][runtime.module]["detail"] == "it cannot be"
    assert client.get("/readyz").status_code == 503
    assert client.get("/api/runtimes/runtime1").json()["error"]["message"] == "it cannot be"
    assert client.get("/api/runtimes/runtime1/stats").status_code == 409


def test_owners_are_recorded_and_tell_runtimes_of_one_name_apart(client, definition):
    """A bare name is enough while one owner has it."""
    client.post("/api/runtimes", json={**definition, "owner": "ann"})
    assert client.get("/api/runtimes/runtime1").json()["uniqueName"] == "ann-runtime1"
    assert client.post("/api/runtimes", json=definition).json()["name"] == "runtime1"
    assert client.get("/api/runtimes/runtime1").status_code == 409
    assert client.get("/api/runtimes/coral-runtime1.1").json()["owner"] == "coral"
    again = client.post("/api/runtimes", json={**definition, "owner": "ann"}).json()
    assert again["uniqueName"] == "ann-runtime2"


@pytest.mark.parametrize("owner", ["€", "a b", "a?x", "a#x", "..", "x.1", "-", "é"])
def test_whoever_owns_a_runtime_its_location_leads_to_it(client, definition, owner):
    """A header is ASCII, and what means something in an address is written as its number."""
    made = client.post("/api/runtimes", json={**definition, "owner": owner})
    assert made.status_code == 201
    found = client.get(made.headers["location"])
    assert (found.status_code, found.json()["owner"]) == (200, owner)


def test_a_definition_can_be_checked_without_being_made(client, definition):
    """All that is wrong; and the schema for editors."""
    assert client.post("/api/validate", json=definition).json() == {
        "valid": True,
        "runs": True,
        "problems": [],
    }
    wrong = client.post("/api/validate", json={**definition, "name": "", "links": []}).json()
    assert wrong["valid"] is False
    assert {each["kind"] for each in wrong["problems"]} >= {"no-runtime-name", "no-links"}
    assert client.get("/api/schema").json()["$schema"].startswith("https://json-schema.org")
    assert client.get("/api/runtimes").json() == []


@pytest.mark.parametrize("given", [{}, {"name": ""}, [], 1, "x"])
def test_a_wrong_definition_is_a_400_with_everything_that_is_wrong(client, given):
    """In Coral's shape and as problem details."""
    answer = client.post("/api/runtimes", json=given)
    assert answer.status_code == 400
    told = answer.json()
    assert (told["success"], told["code"]) == (False, "E-DEFINITION")
    assert len(told["errors"]) == len(told["context"]["problems"])


def test_what_is_not_there_is_a_404_what_does_not_fit_a_409_what_cannot_be_a_400(
    client, definition
):
    """Never a 500, whoever errs."""
    client.post("/api/runtimes", json={**definition, "distribution": {"copies": 2}})
    assert client.patch("/api/runtimes/none", json={"status": "start"}).status_code == 404
    assert client.delete("/api/runtimes/none").status_code == 404
    assert client.get("/api/runtimes/runtime1.3").status_code == 404
    assert client.get("/api/runtimes/runtime1.0").status_code == 404
    assert client.get("/api/runtimes/runtime1/actors/none").status_code == 404
    assert client.get("/api/runtimes/runtime1/none").status_code == 404
    assert client.get("/api/runtimes/%2e%2e%2fmeta").status_code == 404
    for wrong in ({}, {"status": "go"}, {"status": "start", "distribution": {"copies": 1}}):
        assert client.patch("/api/runtimes/runtime1", json=wrong).status_code == 400
    assert client.patch("/api/runtimes/runtime1.1", json={"status": "start"}).status_code == 409
    assert client.delete("/api/runtimes/runtime1.1").status_code == 409
    assert client.patch("/api/runtimes/runtime1", json={"status": "stop"}).status_code == 409
    refused = client.post("/api/runtimes/runtime1/actors/low", json={"v": 1})
    assert (refused.status_code, refused.json()["success"]) == (409, False)
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    again = client.patch("/api/runtimes/runtime1", json={"status": "start"})
    assert (again.status_code, again.json()["code"]) == (409, "E-CONFLICT")
    text = client.get("/api/runtimes", headers={"accept": "text/html"})
    assert (text.status_code, text.json()["success"]) == (406, False)
    for wrong in ([1], "x", 5, [None]):
        assert client.post("/api/runtimes/runtime1/actors/low", json=wrong).status_code == 400


def test_an_actor_takes_one_event_an_array_and_lines(client, runtimes, definition):
    """All are processed, and what was wrong is told with its line."""
    client.post("/api/runtimes", json=definition)
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    url = "/api/runtimes/runtime1/actors/low"
    assert client.post(url, json={"v": 10}).json()["accepted"] == 1
    sent = client.post(url, json=[{"v": 9}, {"v": 20}])
    assert (sent.status_code, sent.json()["accepted"]) == (202, 2)
    sent = client.post(url, content=b'{"v": 30}\n\n{"other": 1}\n', headers=JSON_LINES)
    assert sent.json()["accepted"] == 2
    wrong = client.post(url, content=b'{"v": 30}\n[1]\n{"a": 1, "a": 2}\n', headers=JSON_LINES)
    assert [each["line"] for each in wrong.json()["context"]["problems"]] == ["2", "3"]
    wait(runtimes, "runtime1")
    stats = client.get("/api/runtimes/runtime1/stats").json()
    assert (stats["totalActors"], stats["totalMessages"], stats["totalExceptions"]) == (2, 8, 1)
    assert stats["counters"]["low"] == {"json": 5, "emitted": 3, "failure": 1}
    assert stats["counters"]["high"] == {"json": 3, "emitted": 2}
    assert stats["counters"]["total"] == {"json": 8, "emitted": 5, "failure": 1}
    found = client.get("/api/runtimes/runtime1/actors/low/stats").json()
    assert found["lastFailure"]["reason"] == "field 'v' is missing or no number"


def test_a_shunt_answers_and_emits_nothing(client, definition):
    """The answer is there when its microbatch has committed; a failure is a 422."""
    client.post("/api/runtimes", json=definition)
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    url = "/api/runtimes/runtime1/actors/low/shunt"
    answer = client.post(url, json={"v": 25})
    assert answer.status_code == 200
    assert answer.json()["emitted"] == [{"v": 25}]
    assert client.post(url, json={"v": 5}).json()["emitted"] == []
    failed = client.post(url, json={"w": 5})
    assert (failed.status_code, failed.json()["success"]) == (422, False)
    counters = client.get("/api/runtimes/runtime1/stats").json()["counters"]
    assert counters["low"] == {"shunt": 3, "failure": 1}
    assert counters["high"] == {}


def test_the_endpoints_of_copies_come_by_themselves(client, runtimes, definition):
    """``r`` is all copies, ``r.1`` to ``r.n`` one each; the sums add up."""
    client.post("/api/runtimes", json={**definition, "distribution": {"copies": 2}})
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    client.post("/api/runtimes/runtime1/actors/low", json=[{"v": 10}] * 6)
    client.post("/api/runtimes/runtime1.2/actors/low", json=[{"v": 10}] * 3)
    wait(runtimes, "runtime1")
    one = client.get("/api/runtimes/runtime1.1/stats").json()
    two = client.get("/api/runtimes/runtime1.2/stats").json()
    both = client.get("/api/runtimes/runtime1/stats").json()
    assert (one["counters"]["low"]["json"], two["counters"]["low"]["json"]) == (3, 6)
    assert both["totalMessages"] == one["totalMessages"] + two["totalMessages"] == 18
    assert both["copies"]["2"]["counters"] == two["counters"]
    short = client.get("/api/runtimes/runtime1.2/low/stats").json()
    long = client.get("/api/runtimes/runtime1.2/actors/low/stats").json()
    assert short == long
    assert short["counters"] == {"json": 6, "emitted": 6}
    assert client.get("/api/runtimes/runtime1.2").json()["copy"] == 2
    answer = client.post("/api/runtimes/runtime1.2/actors/low/shunt", json={"v": 1}).json()
    assert answer["copy"] == 2


def test_definitions_are_shown_as_they_were_given(client, definition):
    """Actors, links and the whole."""
    client.post("/api/runtimes", json=definition)
    assert client.get("/api/runtimes/runtime1/actors").json() == {"actors": definition["actors"]}
    assert client.get("/api/runtimes/runtime1/links").json() == {"links": definition["links"]}
    shown = client.get("/api/runtimes/runtime1").json()
    assert shown["json"] == {**definition, "owner": "coral"}
    assert shown["uniqueName"] == "coral-runtime1"
    actor = client.get("/api/runtimes/runtime1/actors/low").json()
    assert (actor["actor"], actor["targets"]) == (definition["actors"][0], ["high"])


def test_the_module_of_a_runtime_is_served_for_reading(client, definition):
    """Status, metrics and PStates by inheritance; its intake is nobody's to write to."""
    client.post("/api/runtimes", json=definition)
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    client.post("/api/runtimes/runtime1/actors/low/shunt", json={"v": 1})
    told = 'atoll_runtime_events_total{actor="low",copy="1",runtime="coral-runtime1"'
    assert told in client.get("/metrics").text
    module = client.get("/api/runtimes/runtime1").json()["module"]
    assert module in client.get("/v1/status").json()["modules"]
    scraped = client.get("/metrics").text
    assert module in scraped
    url = f"/v1/modules/{module}/depots/intake/records"
    assert client.post(url, json={"kind": "drop"}).status_code == 400
    client.delete("/api/runtimes/runtime1")
    assert module not in client.get("/v1/status").json()["modules"]


def test_a_shunt_that_waits_while_the_service_shuts_down_is_told_so(
    client, runtimes, cluster, definition
):
    """A 503: nobody has asked for anything wrong."""
    client.post("/api/runtimes", json=definition)
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    running = runtimes.running(runtimes.find("runtime1")[0])
    running.app.topology("run").pause()
    end = running.app.depot("intake").end_offsets()[0]
    with ThreadPoolExecutor() as others:
        url = "/api/runtimes/runtime1/actors/low/shunt"
        answer = others.submit(client.post, url, json={"v": 30})
        until(lambda: running.app.depot("intake").end_offsets()[0] > end)
        cluster.close()
        told = answer.result(20)
    assert (told.status_code, told.json()["code"]) == (503, "E-STOPPED")


def test_state_moves_with_its_keys_over_http(client, runtimes, definition):
    """What can be chosen is told, and done."""
    definition["actors"].append(
        {"name": "sum", "type": "stats", "params": {"field": "v"}, "group": {"by": "k"}}
    )
    definition["links"].append({"from": "low", "to": "sum"})
    definition["distribution"] = {"by": "k"}
    client.post("/api/runtimes", json=definition)
    client.patch("/api/runtimes/runtime1", json={"status": "start"})
    events = [{"v": 20, "k": f"k{at}"} for at in range(20)]
    url = "/api/runtimes/runtime1"
    client.post(f"{url}/actors/low", json=events)
    refused = client.patch(url, json={"distribution": {"copies": 2}})
    assert (refused.status_code, refused.json()["context"]["choices"]) == (
        409,
        ["keep", "drop", "move"],
    )
    moved = client.patch(url, json={"distribution": {"copies": 2}, "state": "move"})
    assert (moved.status_code, moved.json()["copies"]) == (200, 2)
    client.post(f"{url}/actors/low", json=events)
    wait(runtimes, "runtime1")
    shown = client.get(f"{url}/actors/sum/stats").json()["instances"]
    assert [each["state"]["count"] for each in shown] == [2] * 20
    assert {each["copy"] for each in shown} == {1, 2}
