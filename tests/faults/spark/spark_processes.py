"""Real processes of the scenario: started, watched by their lines, hit by real signals, cleaned up.

A process is watched through the pipe that it writes to, so what it told before it died is known
for certain: the last line of a killed process says which step was running.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "src"

STEPS = ("prime", "process", "commit", "publish", "tidy")
LINE_SECONDS_MAX = 180.0
"""How long a process may be silent before the test fails; generous, for a busy machine."""


class Child:
    """A scenario process in a session of its own.

    Args:
        script: A file beside this one.
        arguments: Its arguments.
        environment: Added to the test's own.
    """

    def __init__(self, script, *arguments, **environment):
        paths = f"{SOURCE}{os.pathsep}{HERE}"
        self.lines = deque()
        self._queue = queue.Queue()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / script), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": paths, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.errors = deque(maxlen=200)
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for each in self._readers:
            each.start()

    def _read(self):
        for line in self.process.stdout:
            self._queue.put(line.split())
        self._queue.put(None)

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line)

    def said(self):
        """What it wrote to stderr last, for the message of a failed assertion."""
        return "".join(self.errors)[-4000:]

    def line(self, seconds=LINE_SECONDS_MAX):
        """The next line, in words; None when it has ended."""
        try:
            words = self._queue.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"silent for {seconds} s; stderr: {self.said()}") from None
        if words is not None:
            self.lines.append(words)
        return words

    def until(self, first, seconds=LINE_SECONDS_MAX):
        """The first line from now on that begins with that word."""
        ends_at = time.monotonic() + seconds
        while (words := self.line(ends_at - time.monotonic())) is not None:
            if words[0] == first:
                return words
        raise AssertionError(f"ended without {first!r}: {list(self.lines)[-5:]} {self.said()}")

    def kill(self):
        """SIGKILL, then everything that it had still told."""
        self.process.send_signal(signal.SIGKILL)
        return self.ended()

    def ended(self, seconds=LINE_SECONDS_MAX):
        """Wait until it has ended; its return code.

        Its own pipe only: Java inherits stderr and lives on for a while.
        """
        while self.line(seconds) is not None:
            pass
        return self.process.wait(seconds)

    def running_step(self):
        """The step after the last one that it told of; ``start`` before the first."""
        told = [words for words in self.lines if words[0] in STEPS]
        if not told:
            return "start"
        step = told[-1][0]
        return STEPS[(STEPS.index(step) + 1) % len(STEPS)]

    def clean(self):
        """End what is left of its session: itself, Java, and Python workers, each by its pid."""
        for pid in session_pids(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)
        for each in self._readers:
            each.join(30)
        self.process.stdout.close()
        self.process.stderr.close()


def session_pids(session):
    """The processes whose session is the one given."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == session:
                found.append(int(folder.name))
    return found


def children(pid):
    """The child processes of a process, now."""
    found = []
    for folder in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += [int(each) for each in (folder / "children").read_text().split()]
    return found


def worker_pids(java):
    """The Python workers of a Java process: the children of its Python daemon."""
    return [worker for daemon in children(java) for worker in children(daemon)]


def is_alive(pid):
    """Whether a process runs, or is stopped; a zombie is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def wait_until(done, seconds, what):
    """Wait for a condition with a cap."""
    ends_at = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < ends_at, f"{what} not within {seconds} s"
        time.sleep(0.01)
