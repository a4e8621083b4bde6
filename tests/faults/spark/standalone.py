"""A Spark standalone cluster of real processes on this machine: a master, workers 1, 2, 3 ...

Worker ``n`` is the host ``127.0.0.n``, or another one that it shares, with a folder of its own for
local state. Spark's package from PyPI has no scripts to start them, but it has the classes.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
from spark_processes import children, is_alive, wait_until

from atoll.spark.jvm.java import find_java
from atoll.storage.places import LOCAL_VARIABLE

START_SECONDS_MAX = 90.0
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Six Java processes start on few cores, and none lives long enough for its second compiler."""
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")


def has_hosts():
    """Whether 127.0.0.2 is this machine: everywhere but on macOS."""
    with socket.socket() as listener, contextlib.suppress(OSError):
        listener.bind(("127.0.0.2", 0))
        return True
    return False


class Standalone:
    """The master and its workers; use it as a context manager.

    Args:
        folder: For logs, work folders and the workers' local folders.
        cores: Of each worker.
    """

    def __init__(self, folder, cores=2):
        self.folder = folder
        self.cores = cores
        self.workers = {}
        self.master = self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        wait_until(self._address, START_SECONDS_MAX, "the master's address")
        self.url = self._address()

    def add_worker(self, number, host=None, **told):
        """Start worker ``number``, on the host of another one if told; it joins when it is ready.

        ``told`` is what it says of itself.
        """
        host = f"127.0.0.{host or number}"
        options = ["--host", host, "--cores", str(self.cores), "--memory", "1500M"]
        options += ["--work-dir", str(self.folder / f"work{number}"), self.url]
        local = {"SPARK_LOCAL_IP": host, LOCAL_VARIABLE: str(self.local(number)), **told}
        self.workers[number] = self._start(f"worker{number}", "worker.Worker", *options, **local)

    def local(self, number):
        """Below it worker ``number`` keeps its vnode stores."""
        return self.folder / f"local{number}"

    def executor(self, number):
        """The process of the executor that runs on a worker; None while there is none."""
        for pid in children(self.workers[number].pid):
            with contextlib.suppress(OSError):
                if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        return None

    def kill_executor(self, number):
        """SIGKILL; the worker starts another one."""
        pid = self.executor(number)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), 10, "the executor's end")

    def kill_worker(self, number):
        """SIGKILL to the worker and all that it runs, as when the machine is lost."""
        worker = self.workers.pop(number)
        executor = self.executor_of(worker)
        worker.kill()
        worker.wait()
        if executor is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(executor, signal.SIGKILL)

    def executor_of(self, worker):
        """The executor below a worker's process."""
        return next(iter(children(worker.pid)), None)

    def __enter__(self):
        """It runs already."""
        return self

    def __exit__(self, *error):
        """Kill what is left."""
        for number in list(self.workers):
            self.kill_worker(number)
        self.master.kill()
        self.master.wait()

    def _start(self, name, kind, *options, **environment):
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            **find_java().environment(),
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
            **QUICK_JAVA,
            **environment,
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*command, "--webui-port", "0", *options],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _address(self):
        found = _MASTER_AT.search((self.folder / "master.log").read_text(errors="replace"))
        return found[1] if found else None
