"""Servers of real components: each is started once for all processes of a test run.

Whoever needs one joins it: the first starts it, the last to leave ends it. Who was killed is
counted no longer.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Started = dict[str, Any]
"""What a server was started with: ``pid``, ``folder``, and what clients have to know."""

NEED_ALL = "ATOLL_TESTS_NEED_ALL"
"""Set where every component must be there: a test that lacks one fails."""

_END_SECONDS = 20.0


def missing(reason: str) -> None:
    """Skip for want of a component; where all are asked for, that is a failure."""
    if os.environ.get(NEED_ALL):
        pytest.fail(f"not there: {reason}")
    pytest.skip(reason)


@contextlib.contextmanager
def shared_server(
    factory: pytest.TempPathFactory,
    name: str,
    start: Callable[[Path], Started],
    end: signal.Signals = signal.SIGTERM,
) -> Iterator[Started]:
    """The server of that name of this test run.

    Args:
        factory: Pytest's; processes of one run have folders side by side.
        name: Names it among others.
        start: Starts it, given an empty folder that everybody may pass; returns once it answers.
        end: The signal that ends it.
    """
    base = factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    note = common / f"{name}.json"
    with _locked(note):
        known = json.loads(note.read_text()) if note.exists() else {"users": []}
        users = [user for user in known["users"] if _lives(user)]
        if "pid" not in known or not _lives(known["pid"]):
            shutil.rmtree(known.get("folder", ""), ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=f"atoll-{name}-"))
            folder.chmod(0o755)
            known = {**start(folder), "folder": str(folder)}
        known["users"] = [*users, os.getpid()]
        note.write_text(json.dumps(known))
    try:
        yield known
    finally:
        with _locked(note):
            known = json.loads(note.read_text())
            known["users"].remove(os.getpid())
            known["users"] = [user for user in known["users"] if _lives(user)]
            note.write_text(json.dumps(known))
            if not known["users"]:
                note.unlink()
                _end(known["pid"], end)
                shutil.rmtree(known["folder"], ignore_errors=True)


@contextlib.contextmanager
def _locked(note: Path) -> Iterator[None]:
    with note.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lives(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # of a child that has ended
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not _has_ended(pid)


def _has_ended(pid: int) -> bool:
    """Whether it only waits for its parent, another process of this run, to hear of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _end(pid: int, end: signal.Signals) -> None:
    """End a server and wait until it has; it may be the child of a process that is gone."""
    for sign in (end, signal.SIGKILL):
        until = time.monotonic() + _END_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
        while _lives(pid) and time.monotonic() < until:
            time.sleep(0.01)
