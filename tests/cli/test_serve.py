"""``atoll serve``: a door as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import httpx

import atoll
from atoll import LocalCluster, agg, start


def test_a_door_as_a_process(tmp_path):
    """It says where it listens, reads a root that nobody runs, and ends cleanly."""
    module = atoll.Module("shop")
    numbers = module.depot("numbers", "v long")
    mb = module.microbatch("mb", vnode_count=1)
    total = mb.pstate("total", int, initial=0)
    mb.source(numbers, start_from=start.beginning()).aggregate(total, agg.sum("v"))
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module)
        app.wait(app.depot("numbers").append([{"v": 3}, {"v": 4}]))
    command = [sys.executable, "-m", "atoll", "serve", "--root", str(tmp_path), "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as door:
        try:
            url = door.stdout.readline().strip()
            with atoll.connect(url) as connected:
                assert connected.pstate("total").get() == 7
            assert httpx.get(f"{url}/readyz").json() == {"ready": True, "reasons": []}
        finally:
            door.terminate()
        assert door.wait(30) == 0
        assert "a door to" in door.stderr.read()


def test_what_is_no_root(run_atoll, tmp_path):
    """It is said before anything listens."""
    assert "there is no root" in run_atoll("serve", "--root", tmp_path / "no").err
