"""A second process that serves the root: reads by itself, changes by the one that runs it all."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from atoll.runtime.service.following import FollowedRuntimes, announce
from atoll.server import create_app, serve
from atoll.server.serve import bind


@pytest.fixture
def follower(runtimes, cluster):
    """A client of a process that follows, and the address of the one that runs."""
    with serve(create_app(runtimes=runtimes), bind("127.0.0.1", 0)) as address:
        announce(cluster.root, address.url)
        application = create_app(runtimes=FollowedRuntimes(cluster.root))
        with TestClient(application, base_url="http://127.0.0.1:7411") as found:
            yield found


def test_case_36_a_runtime_made_on_one_is_read_and_changed_on_the_other(
    follower, runtimes, definition
):
    """Any process answers for any runtime and any copy."""
    definition["distribution"] = {"copies": 2}
    made = follower.post("/api/runtimes", json=definition)
    assert (made.status_code, made.json()["name"]) == (201, "runtime1")
    assert made.headers["location"] == "/api/runtimes/coral-runtime1"
    assert follower.patch("/api/runtimes/runtime1", json={"status": "start"}).status_code == 200
    assert follower.get("/api/runtimes/runtime1").json()["status"] == "running"
    sent = follower.post("/api/runtimes/runtime1/actors/low", json=[{"v": 30}] * 4)
    assert sent.json()["accepted"] == 4
    answer = follower.post("/api/runtimes/runtime1.2/actors/low/shunt", json={"v": 30})
    assert (answer.status_code, answer.json()["copy"]) == (200, 2)
    running = runtimes.running(runtimes.find("runtime1")[0])
    stats = follower.get("/api/runtimes/runtime1/stats").json()
    assert stats["counters"]["low"] == {"json": 4, "shunt": 1, "emitted": 4}
    assert running.counters()[1]["low"]["json"] == 2
    assert follower.get("/api/runtimes/runtime1.1/low/stats").json()["counters"]["json"] == 2
    assert follower.get("/api/runtimes/runtime1/snapshots").json()["actors"] == {}
    assert "atoll_runtime_events_total" in follower.get("/metrics").text
    assert follower.get("/healthz").status_code == 200


def test_what_the_owner_refuses_is_refused_here_in_the_same_words(follower, definition):
    """Status, code and reason are passed back."""
    wrong = follower.post("/api/runtimes", json={**definition, "name": ""})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "E-DEFINITION")
    assert follower.delete("/api/runtimes/none").status_code == 404
    assert follower.post("/api/validate", json=definition).json()["valid"] is True


def test_without_somebody_who_runs_them_runtimes_can_still_be_read(cluster, runtimes, definition):
    """What changes is a 503 that says why."""
    runtimes.create(definition)
    follower = TestClient(
        create_app(runtimes=FollowedRuntimes(cluster.root)), base_url="http://127.0.0.1:7411"
    )
    assert follower.get("/api/runtimes/runtime1").json()["status"] == "created"
    refused = follower.patch("/api/runtimes/runtime1", json={"status": "start"})
    assert (refused.status_code, refused.json()["code"]) == (503, "E-STOPPED")
    announce(cluster.root, "http://127.0.0.1:9")
    refused = follower.patch("/api/runtimes/runtime1", json={"status": "start"})
    assert (refused.status_code, refused.json()["code"]) == (503, "E-UNREACHABLE")
