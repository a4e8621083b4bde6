"""A real cluster: a master, two and then three workers, and a driver; executors and workers die.

One life of one module goes through all of it, as a user's would: what a worker that joins, an
executor that is killed and a machine that is lost change is where actors run and what they must
fetch, never a result. A reader outside the cluster looks on all the time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
import spark_scenario as scenario
from harness import report
from spark_processes import HERE, SOURCE, wait_until
from standalone import QUICK_JAVA, Standalone, has_hosts

from atoll.errors import NotFoundError
from atoll.spark.members import reported

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_hosts(), reason="needs 127.0.0.2 to be this machine"),
]
WAIT_SECONDS = 150.0
ROUND_RECORDS = 600
HIT_RATIO_LEAST = 0.95


class Driver:
    """``atoll run`` on a cluster, and what is asked of it over HTTP."""

    def __init__(self, folder, master):
        self.root = folder / "root"
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.records = 0
        with (folder / "driver.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "atoll", "run", f"{HERE}/cluster_module.py:module"),
                    *("--root", str(self.root), "--port", "0", "--master", master),
                    *("--conf", "spark.executor.memory=700m"),
                ],
                env={
                    **os.environ,
                    **QUICK_JAVA,
                    "PYTHONPATH": os.pathsep.join([str(SOURCE), str(HERE)]),
                    "ATOLL_LOCAL": str(folder / "local-driver"),
                    "ATOLL_TEST_MARKS": str(self.marks),
                },
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            code = self.end()
            pytest.fail(f"it ended with {code}: {(folder / 'driver.log').read_text()}")

    def ask(self, path, body=None):
        """GET, or POST of JSON; the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/v1/modules/{scenario.MODULE}{path}",
            data,
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            return json.load(answer)

    def append(self, count=ROUND_RECORDS):
        """So many further transfers."""
        numbers = range(self.records, self.records + count)
        self.ask(f"/depots/{scenario.DEPOT}/records", [scenario.record_of(n) for n in numbers])
        self.records += count

    def status(self):
        """Of the topology."""
        return self.ask(f"/topologies/{scenario.TOPOLOGY}")

    def finish(self):
        """Wait until all is processed."""
        wait_until(
            lambda: self.status()["processed"] == self.records, WAIT_SECONDS, "all processed"
        )

    def hold(self):
        """Append, and return when a task of it stands still; on which worker's local folder."""
        (self.marks / "gate").touch()
        self.append()
        held = self.marks / "held"
        wait_until(held.exists, WAIT_SECONDS, "a task at the gate")
        folder = held.read_text()
        held.unlink()
        return folder

    def release(self):
        """Let what is held go on."""
        (self.marks / "open").touch()

    def close_gate(self):
        """The next transfer that is held waits again."""
        (self.marks / "open").unlink(missing_ok=True)

    def workers(self):
        """The workers of the cluster that are not gone, by name, with their units."""
        return {
            each["name"]: each["units"]
            for each in self.ask("/cluster")["workers"]
            if each["state"] != "gone"
        }

    def used(self):
        """The workers that run an actor of any fragment."""
        name_of = {unit: name for name, units in self.workers().items() for unit in units}
        matrix = self.ask("/cluster")["matrix"]
        return {name_of.get(int(unit), "gone") for units in matrix.values() for unit in units}

    def wait_used(self, *names):
        """Wait until actors run on exactly these workers."""
        wanted = set(names)
        wait_until(lambda: self.used() == wanted, WAIT_SECONDS, f"actors on {wanted}")

    def metric(self, name, label):
        """A counter of the topology by one label."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        found = Counter()
        for line in lines:
            if line.startswith(name + "{"):
                labels, value = line[len(name) + 1 :].split("} ")
                found[dict(pair.split("=") for pair in labels.split(","))[label]] = float(value)
        return {key.strip('"'): value for key, value in found.items()}

    def end(self):
        """Stop it as a user does; the exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        self.process.stdout.close()
        return code


class Looker(threading.Thread):
    """Reads all the time, from outside the cluster, and remembers what it should not have seen."""

    def __init__(self, root):
        super().__init__(daemon=True)
        self.root = root
        self.over = threading.Event()
        self.looks = 0
        self.wrong = []

    def run(self):
        """Until it is over."""
        counted = 0
        while not self.over.is_set():
            try:
                state = scenario.shown(self.root)
            except NotFoundError:  # not deployed yet
                continue
            seen = sum(state["seen"].values())
            if sum(state["funds"].values()) or seen < counted:
                self.wrong.append(state)
            counted = seen
            self.looks += 1


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A master and two workers."""
    monkeypatch.setenv("ATOLL_LOCAL", str(tmp_path / "local-reader"))
    monkeypatch.setenv("ATOLL_TEST_MARKS", str(tmp_path / "marks"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCE), str(HERE)]))
    with Standalone(tmp_path) as running:
        running.add_worker(1)
        running.add_worker(2)
        yield running


def _expect(driver):
    """The state is that of a plain fold over what was appended."""
    records = [scenario.record_of(number) for number in range(driver.records)]
    by_partition = scenario.stored(driver.root)
    assert sum(map(len, by_partition)) == len(records)
    ordered = [record for partition in by_partition for record in partition]
    assert sorted(ordered, key=lambda each: each["id"]) == records
    assert scenario.shown(driver.root) == scenario.fold(ordered)


def test_workers_join_and_die_while_a_topology_runs(cluster, tmp_path):
    """Results equal a plain fold; readers see whole microbatches; state is found where it was."""
    driver = Driver(tmp_path, cluster.url)
    looker = Looker(driver.root)
    looker.start()
    try:
        _live(cluster, driver)
    finally:
        looker.over.set()
        code = driver.end()
        looker.join(30)
    assert code == 0, (tmp_path / "driver.log").read_text()
    assert not looker.wrong, looker.wrong[0]
    assert looker.looks > 10
    _expect(driver)


def _live(cluster, driver):
    began = time.monotonic()
    figures = {}

    # Two workers: every actor finds its vnodes' stores current.
    driver.wait_used("127.0.0.1", "127.0.0.2")
    for _ in range(3):
        driver.append()
        driver.finish()
    runs = driver.metric("atoll_actor_runs_total", "worker")
    opened = driver.metric("atoll_vnode_openings_total", "found")
    figures["undisturbed"] = {"runs": runs, "opened": opened}
    assert runs["same"] >= HIT_RATIO_LEAST * (runs["same"] + runs.get("other", 0))
    assert opened["current"] >= HIT_RATIO_LEAST * sum(opened.values())
    _expect(driver)

    # An executor is killed in the middle of a microbatch; its worker starts another one.
    folder = Path(driver.hold())
    victim = next(n for n in cluster.workers if cluster.local(n) == folder)
    cluster.kill_executor(victim)
    driver.release()
    driver.finish()
    _expect(driver)
    driver.wait_used("127.0.0.1", "127.0.0.2")
    driver.close_gate()

    # A worker is killed with all it runs, in the middle of a microbatch, and its disk is lost.
    folder = Path(driver.hold())
    victim = next(n for n in cluster.workers if cluster.local(n) == folder)
    (left,) = {1, 2} - {victim}
    revision = driver.ask("/cluster")["revision"]
    cluster.kill_worker(victim)
    shutil.rmtree(folder)
    driver.release()
    driver.finish()
    driver.wait_used(f"127.0.0.{left}")
    assert driver.ask("/cluster")["revision"] > revision
    _expect(driver)
    figures["worker_lost"] = driver.metric("atoll_vnode_openings_total", "found")

    # A third worker joins on the host of the one that is left, with nothing on its disk. It says
    # who it is and how many units it has, and takes its share.
    cluster.add_worker(3, host=left, **reported("third", 3))
    driver.append()
    driver.wait_used(f"127.0.0.{left}", "third")
    assert [len(units) for _, units in sorted(driver.workers().items())] == [2, 3]
    for _ in range(2):
        driver.append()
        driver.finish()
    figures["worker_joined"] = driver.metric("atoll_vnode_openings_total", "found")
    assert any(cluster.local(3).glob("*/state/bank/*/*/data.mdb"))
    _expect(driver)

    # And the operator moves it by hand.
    told = driver.ask(f"/topologies/{scenario.TOPOLOGY}/parallelism", {"policy": "fixed(1)"})
    assert told["vnodes_moved"] > 0
    driver.append()
    driver.finish()
    _expect(driver)
    figures["at_last"] = {
        "runs": driver.metric("atoll_actor_runs_total", "worker"),
        "opened": driver.metric("atoll_vnode_openings_total", "found"),
        "logs": driver.metric("atoll_logs_applied_total", "topology"),
    }
    fragments = driver.ask("/cluster")["fragments"]
    assert all(each["bytes"] for each in fragments if each["kind"] != "source")
    report("standalone cluster", 3, 0, began, **figures)
