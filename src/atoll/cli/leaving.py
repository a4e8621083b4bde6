"""Runs a worker of a cluster, and lets it leave before it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from atoll.cli.output import note
from atoll.cluster.scaling.leaving import await_empty, say_leaving
from atoll.cluster.scaling.revisions import Revisions
from atoll.errors import AtollError
from atoll.spark.members import reported
from atoll.storage.roots import open_store

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_worker(
    command: Sequence[str],
    root: str,
    name: str | None,
    timeout_seconds: float,
    units: int | None = None,
) -> int:
    """Run a command that is a worker; its exit code.

    Args:
        command: In the foreground.
        root: Of the cluster.
        name: The worker's, which its executors report; that of this host when None.
        timeout_seconds: How long the first signal waits until nothing runs there; a second one
            does not wait.
        units: How many parallel units its executors report; as many as they have cores when None.
    """
    stopping = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        stopping.set()

    for each in _SIGNALS:
        signal.signal(each, on_signal)
    environment = {**os.environ, **reported(name, units)}
    # A group of its own: Ctrl-C at the terminal is for this process, which passes it on.
    with subprocess.Popen(  # noqa: S603 - the user's own command line
        command, start_new_session=True, stdout=sys.stdout.fileno(), env=environment
    ) as process:
        try:
            while process.poll() is None and not stopping.wait(0.1):
                pass
            if process.poll() is None:
                _leave(root, name or socket.gethostname(), timeout_seconds)
        finally:
            if process.poll() is None:
                process.terminate()
        return process.wait()


def _leave(root: str, name: str, timeout_seconds: float) -> None:
    """Say it and wait; whatever stands in the way is told, and the worker ends all the same."""
    revisions = Revisions(open_store(root))
    note(f"worker {name} is leaving")
    try:
        worker = say_leaving(revisions, name, lambda: int(time.time() * 1000))
        await_empty(revisions, [worker], timeout_seconds)
    except AtollError as error:
        note(f"it ends all the same: {error.message}")
    else:
        note("nothing runs there any more")
