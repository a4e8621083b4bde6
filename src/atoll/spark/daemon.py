"""The process that Spark forks its Python workers from, with what they need imported already.

Spark's own daemon imports nothing, because a fork takes no threads along that a module started.
So each new worker imports pyarrow, numpy and Atoll, which takes more than half a second, and the
first microbatch on more parallel units waits for it. These modules need no thread, if they are
told so; should one start nonetheless, this process becomes Spark's own daemon after all.

Spark starts it as ``python -m atoll.spark.daemon WORKER_MODULE``, by its setting
``spark.python.daemon.module``.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from atoll.spark.folders import claim_folder

if TYPE_CHECKING:
    import socket


_Worker = Callable[["socket.socket", bool], int]

_MODULES = (
    "pandas",
    "pyspark.worker",
    "atoll.spark.tasks",
    "atoll.spark.standing.task",
    "atoll.spark.datasource",
)
"""Pandas because pyarrow imports it, where it is there, for its first array."""

_KERNELS = "atoll.aggregates.kernels"
_TASKS = Path("/proc/self/task")
_SOCKETS = "PYTHON_WORKER_FACTORY_SOCK_DIR"


def main() -> None:
    """Import, then fork workers until Spark closes the standard input."""
    if _TASKS.is_dir():
        os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
        os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
        for each in (*_MODULES, *_kernels()):
            importlib.import_module(each)
        if len(list(_TASKS.iterdir())) == 1:
            from pyspark import daemon

            _own_socket_folder()
            setattr(daemon, "worker", _ending_in_silence(daemon.worker))  # noqa: B010 - its name is fixed
            gc.freeze()  # else the first collection in a worker would copy all of its pages
            daemon.manager()
            return
    command = [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]]
    os.execv(sys.executable, command)  # noqa: S606 - Spark's own way to start it


def _ending_in_silence(worker: _Worker) -> _Worker:
    """Spark's loop of one worker, without a stack trace when Spark itself is gone.

    Its last answer finds nobody then: the driver was killed or has ended, or has given up the task.
    """

    def run(sock: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - as it is called
        try:
            return worker(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return run


def _own_socket_folder() -> None:
    """Let the socket that workers are asked for by lie in a folder of this process.

    It stays behind when this process is killed. So the next one that starts on this machine removes
    the folders whose processes are gone: each holds a lock for as long as it lives.
    """
    if _SOCKETS in os.environ and (folder := claim_folder("sockets")) is not None:
        os.environ[_SOCKETS] = str(folder)


def _kernels() -> list[str]:
    """What folds the aggregates, which is imported when an aggregate needs it."""
    package = importlib.import_module(_KERNELS)
    return [each.name for each in pkgutil.iter_modules(package.__path__, _KERNELS + ".")]


if __name__ == "__main__":
    main()
