"""Folders of processes: nobody's is taken away while it lives, and none stays when it is killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

from atoll.spark.folders import claim_folder, private_temporary_folder

CODE = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from atoll.spark.folders import claim_folder
print(claim_folder("sockets"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary folder of its own, with a short path as the system's has."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield folder


def holder(temporary):
    """A process that holds a folder, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, temporary],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


def test_folders_of_killed_processes_go_and_those_of_live_ones_stay(temporary):
    """With SIGKILL; whoever makes the next one removes them."""
    alive, kept = holder(temporary)
    killed, gone = holder(temporary)
    killed.kill()
    killed.communicate()
    mine = claim_folder("sockets")
    there = {str(path) for path in (private_temporary_folder() / "sockets").iterdir()}
    assert there == {kept, str(mine)}
    assert gone not in there
    alive.communicate("")


def test_a_path_too_long_for_a_socket_is_none(temporary, monkeypatch, tmp_path):
    """Then Spark's own place serves."""
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert claim_folder("sockets") is None
