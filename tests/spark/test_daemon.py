"""Python workers begin with all that they need imported, and are forked from a single thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atoll.spark.session import local_session

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="counts threads by /proc, as on Linux"
)


def _looking(batches):
    """Runs in a worker."""
    import os
    import sys
    from pathlib import Path

    import pyarrow as pa

    for _ in batches:
        parent = Path(f"/proc/{os.getppid()}")
        command = parent.joinpath("cmdline").read_bytes().decode().split("\0")
        rows = {
            "command": [" ".join(command)],
            "threads": [len(list(parent.joinpath("task").iterdir()))],
            "imported": [all(name in sys.modules for name in ("pandas", "atoll.engine.actor"))],
        }
        yield pa.RecordBatch.from_pydict(rows)


def test_workers_are_forks_of_the_daemon():
    """Which has one thread, so that nothing is lost in the fork."""
    frame = local_session(2).range(0, 1, 1, 1)
    columns = "command string, threads long, imported boolean"
    (row,) = frame.mapInArrow(_looking, columns).collect()
    assert "atoll.spark.daemon pyspark.worker" in row.command
    assert (row.threads, row.imported) == (1, True)


def _commands_below(pid):
    """The command lines of a process's descendants."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found.append(Path(f"/proc/{child}/cmdline").read_bytes().decode())
            found += _commands_below(child)
    return found


def test_no_python_searches_for_data_sources():
    """Only Atoll's daemon: Spark's own would print a stack trace when its worker is ended."""
    frame = local_session(2).range(0, 1, 1, 1)
    columns = "command string, threads long, imported boolean"
    assert frame.filter("id >= 0").mapInArrow(_looking, columns).count() == 1
    python = [each for each in _commands_below(os.getpid()) if "daemon" in each]
    assert any("atoll.spark.daemon" in each for each in python)
    assert not [each for each in python if "lookup_data_sources" in each]


def test_with_a_thread_it_becomes_spark_s_own(tmp_path):
    """A module that starts a thread when it is imported leaves the imports to the workers."""
    (tmp_path / "pandas.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    code = (
        "import os, sys\n"
        "def told(path, command):\n    print(*command[1:], flush=True)\n    os._exit(0)\n"
        "os.execv = told\n"
        "sys.argv = ['daemon', 'pyspark.worker']\n"
        "from atoll.spark.daemon import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "-m pyspark.daemon pyspark.worker", done.stderr


def test_a_worker_whose_spark_is_gone_ends_in_silence():
    """Its answer finds nobody; Spark's own loop raises, and its daemon prints a stack trace."""
    code = """
import socket
from pyspark import daemon
from atoll.spark.daemon import _ending_in_silence

def ended(worker):
    mine, theirs = socket.socketpair()
    theirs.sendall(len(b"wrong").to_bytes(4, "big") + b"wrong")
    theirs.close()
    return worker(mine, False)

print(ended(_ending_in_silence(daemon.worker)))
try:
    ended(daemon.worker)
except BrokenPipeError:
    print("raised")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), "PYTHON_WORKER_FACTORY_SECRET": "right"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["1", "raised"]
    assert done.stderr == ""


def test_spark_lets_in_nobody_else():
    """In local mode its ports need a secret of each start, which stands in no command line."""
    settings = local_session(2).sparkContext.getConf()
    assert settings.get("spark.authenticate") == "true"
    assert settings.get("spark.network.crypto.enabled") == "true"
    assert settings.get("spark.authenticate.secret") is None
