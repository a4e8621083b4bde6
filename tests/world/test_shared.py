"""Servers that all processes of a run share: who ends them, and when."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from shared import shared_server


@pytest.fixture
def factory(tmp_path):
    """What a run of its own would have."""

    class Factory:
        def getbasetemp(self):
            folder = tmp_path / "run" / "one"
            folder.mkdir(parents=True, exist_ok=True)
            return folder

    return Factory()


def start(folder):
    """Start what lives until it is ended."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    process.returncode = 0
    return {"pid": process.pid}


def test_the_last_to_leave_ends_the_server(factory):
    """Whoever comes while it runs joins it; one that was killed outside is started anew."""
    with shared_server(factory, "echo", start) as first:
        with shared_server(factory, "echo", start) as second:
            assert second["pid"] == first["pid"]
        os.kill(first["pid"], 0)
        os.kill(first["pid"], signal.SIGKILL)
        os.waitpid(first["pid"], 0)
        with shared_server(factory, "echo", start) as third:
            assert third["pid"] != first["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(third["pid"], 0)
    assert not Path(third["folder"]).exists()
