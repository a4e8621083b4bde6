"""What goes wrong stays where it is: a type that raises or cannot run, a second process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from atoll.cluster.local import LocalCluster
from atoll.errors import AtollError, ConflictError, FencedError
from atoll.runtime.actors.threshold import Threshold
from atoll.runtime.service.runtimes import Runtimes

ATOLL = (sys.executable, "-m", "atoll")


def test_case_28_an_exception_in_an_actor_leaves_the_runtime_answering(
    runtimes, definition, monkeypatch
):
    """The event is a failure with its reason; the state, the others and the next event go on."""
    runtime = runtimes.start(runtimes.create(definition))
    running = runtimes.running(runtime)
    plain = Threshold.trigger

    def raising(self, params, state, event, given):
        if event.get("v") == 13:
            raise ZeroDivisionError("thirteen")
        return plain(self, params, state, event, given)

    monkeypatch.setattr(Threshold, "trigger", raising)
    running.send("low", [{"v": 13}, {"v": 30}])
    running.wait_all()
    assert running.counters()[1]["low"] == {"json": 2, "failure": 1, "emitted": 1}
    with pytest.raises(AtollError, match="ZeroDivisionError: thirteen"):
        running.shunt("low", {"v": 13})
    assert running.shunt("low", {"v": 30})["emitted"] == [{"v": 30}]


def test_a_type_whose_broker_is_not_here_yet_is_made_and_not_started(runtimes):
    """Validated as every other; the start says why it cannot be."""
    consumer = {
        "name": "in",
        "type": "kafka-consumer",
        "params": {
            "topic": "t",
            "kafka": {"group.id": "xyz", "zookeeper.connect": "localhost:2181"},
        },
    }
    low = {"name": "low", "type": "threshold", "params": {"key": "v", "threshold": 1}}
    links = [{"from": "in", "to": "low"}]
    made = runtimes.create({"name": "r", "actors": [consumer, low], "links": links})
    with pytest.raises(ConflictError, match="cannot run"):
        runtimes.start(made)
    assert runtimes.find("r")[0].status == "created"


def test_a_second_process_takes_over_and_the_first_says_so(tmp_path, definition):
    """Nothing is processed twice; what the first had accepted the second processes."""
    with LocalCluster(tmp_path, engine="inline") as one:
        first = Runtimes(one)
        first.open()
        runtime = first.start(first.create(definition))
        first.running(runtime).send("low", [{"v": 30}] * 5)
        with LocalCluster(tmp_path, engine="inline") as two:
            second = Runtimes(two)
            second.open()
            running = second.running(second.find("runtime1")[0])
            with pytest.raises(FencedError):
                first.running(runtime).send("low", [{"v": 30}])
            running.send("low", [{"v": 30}])
            running.wait_all()
            assert running.counters()[1]["low"]["json"] == 6
            second.close()
        first.close()


def serving(root, *how):
    """``atoll run`` without a target, and its address."""
    child = subprocess.Popen(
        [*ATOLL, "run", *how, "--port", "0", "--root", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return child, child.stdout.readline().strip()


def ended(child, how):
    """End it, and read what it said."""
    child.send_signal(how)
    _, said = child.communicate(timeout=30)
    return child.returncode, said


def test_atoll_run_without_a_target_serves_runtimes_and_a_restart_brings_them_back(
    tmp_path, definition
):
    """Killed in the middle, started again, stopped cleanly."""
    file = Path(tmp_path / "definition.json")
    file.write_text(json.dumps(definition))
    child, url = serving(tmp_path / "root", "--engine", "inline")
    try:
        assert httpx.post(f"{url}/api/runtimes", json=definition).status_code == 201
        api = f"{url}/api/runtimes/runtime1"
        assert httpx.patch(api, json={"status": "start"}).status_code == 200
        sent = httpx.post(f"{api}/actors/low", json=[{"v": 30}] * 100)
        assert sent.json()["accepted"] == 100
    finally:
        ended(child, signal.SIGKILL)
    child, url = serving(tmp_path / "root", "--engine", "inline")
    try:
        api = f"{url}/api/runtimes/runtime1"
        assert httpx.get(api).json()["status"] == "running"
        assert httpx.post(f"{api}/actors/low/shunt", json={"v": 30}).status_code == 200
        counters = httpx.get(f"{api}/stats").json()["counters"]["low"]
        assert counters == {"json": 100, "shunt": 1, "emitted": 100}
        code, said = ended(child, signal.SIGTERM)
    finally:
        child.kill()
        child.wait()
    assert code == 0
    assert "runtime coral-runtime1: running" in said
    assert "stopped" in said


def test_a_process_that_only_follows_starts_nothing(tmp_path, definition):
    """It reads and passes on, so it needs neither Spark nor a word about it."""
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        runtimes.create(definition)
        runtimes.close()
    child, url = serving(tmp_path / "root", "--follow")
    try:
        assert httpx.get(f"{url}/api/runtimes/runtime1").json()["status"] == "created"
        code, said = ended(child, signal.SIGTERM)
    finally:
        child.kill()
        child.wait()
    assert (code, "Spark" in said) == (0, False)
