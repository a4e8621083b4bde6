"""The demonstration for real, short: it ends by itself or on Ctrl-C, and the state is right."""

import os
import signal
import subprocess
import sys

import pytest
from harness import soaking

pytestmark = pytest.mark.slow


def start(*arguments):
    """``atoll demo`` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "atoll", "demo", "--rate", "2000", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_ends_by_itself():
    """After its time, with the check, and how to go on."""
    _, said = (process := start("--seconds", "2")).communicate(timeout=180)
    assert process.returncode == 0, said
    assert "equals an independent recount" in said
    assert "atoll run atoll.demo.auctions:module" in said
    assert "Traceback" not in said, said


@pytest.mark.skipif(not soaking(), reason="another whole demo: with ATOLL_SOAK=1")
def test_it_ends_on_ctrl_c():
    """Early, in order, and with the same check."""
    process = start("--seconds", "600")
    said = ""
    while not said.startswith("microbatch"):
        said = process.stderr.readline()
        assert said, "it ended early"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=180)
    assert process.returncode == 0, said
    assert "equals an independent recount" in said
    assert "Traceback" not in said, said
