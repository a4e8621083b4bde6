"""A process killed with SIGKILL between any two of the five steps ends in the same state.

One root lives through five processes that die after step 1, 2, 3, 4 and 5 in turn, and a sixth
that finishes. The result is compared with a plain Python fold. They run without Spark; kills on
Spark are in ``tests/faults/spark/test_driver_kills.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import crash_module
import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
TOTAL = 700


def _run(root, crash):
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"}
    return subprocess.run(
        [sys.executable, str(HERE / "crash_child.py"), str(root), str(TOTAL), crash],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.slow
def test_killed_after_each_step_the_state_is_that_of_an_undisturbed_run(tmp_path):
    """Nothing is lost, nothing is doubled, ids go on; the local folder is lost once as well."""
    root = tmp_path / "root"
    found = []
    for step in ("prime", "process", "commit", "publish", "tidy"):
        killed = _run(root, step)
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
        assert f"crashing after {step}" in killed.stdout
        found.append(int(killed.stdout.split("found ", 1)[1].split()[0]))
        if step == "commit":
            shutil.rmtree(root / "local")
    last = _run(root, "never")
    assert last.returncode == 0, last.stderr[-3000:]
    assert found == sorted(found)
    assert found[-1] > 0

    state = json.loads(last.stdout.split("final ", 1)[1])
    expected = crash_module.expected(TOTAL)
    touched = {crash_module.record_of(n)["dst"] for n in range(TOTAL)} | set(expected["seen"])
    assert dict(state["funds"]) == {k: v for k, v in expected["funds"].items() if k in touched}
    assert dict(state["seen"]) == expected["seen"]
    best = sorted(expected["seen"].values(), reverse=True)[:3]
    assert [each["count"] for each in state["top"]] == best
    assert state["processed"] == TOTAL
    assert state["committed"] >= TOTAL // 45
