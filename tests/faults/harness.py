"""What all fault suites share: real processes that are cheap to start, seeds, volumes, reports.

A scenario runs in a process of its own, so that a SIGKILL is one. Starting Python and importing
pyarrow costs a second, so a *zygote* does it once: a clean process of a single thread that forks a
child per scenario. A child costs a few milliseconds.

    ATOLL_SOAK=1           the full figures instead of the small ones
    ATOLL_SEED=7           where randomness starts from
    ATOLL_SOAK_REPORT=f    a file that gets one JSON line per suite
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

__all__ = [
    "Child",
    "Ended",
    "Zygote",
    "kept_seeds",
    "replay",
    "report",
    "seed",
    "soaking",
    "spread",
    "volume",
    "zygote",
]

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
CAP_SECONDS = 180.0
"""No scenario may take longer: it is killed and fails."""

_DEFAULT_SEED = 20_260_101
_CORES_MAX = 2
Case = TypeVar("Case")


# Volumes, seeds, reports --------------------------------------------------------------------------


def soaking() -> bool:
    """Whether the full figures are asked for."""
    return os.environ.get("ATOLL_SOAK", "") not in {"", "0"}


def volume(ci: int, soak: int) -> int:
    """How many faults to make: the small figure, or the full one."""
    return soak if soaking() else ci


def seed() -> int:
    """Where a suite's randomness starts from; the same in every run unless set."""
    return int(os.environ.get("ATOLL_SEED", str(_DEFAULT_SEED)))


def kept_seeds(suite: str) -> list[int]:
    """Seeds that failed once: run first for ever, from ``seeds.json``."""
    known: dict[str, list[int]] = json.loads((HERE / "seeds.json").read_text())
    return known.get(suite, [])


def replay(test: str, used: int | None = None) -> str:
    """What to type to see a failure again; goes into every assertion's text."""
    chosen = seed() if used is None else used
    soak = "ATOLL_SOAK=1 " if soaking() else ""
    return f"seed {chosen}; again with: ATOLL_SEED={chosen} {soak}pytest tests/faults/{test}"


def report(suite: str, faults: int, violations: int, began: float, **more: Any) -> None:
    """One line of a suite's counts: printed, and appended to the report file if there is one.

    Args:
        suite: Its name.
        faults: How many faults really happened.
        violations: How often an invariant did not hold.
        began: ``time.monotonic()`` at the beginning.
        **more: Other counts.
    """
    seconds = round(time.monotonic() - began, 1)
    line = {"suite": suite, "faults": faults, "violations": violations, "seconds": seconds, **more}
    print("\n" + json.dumps(line), flush=True)
    path = os.environ.get("ATOLL_SOAK_REPORT")
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps({"at": int(time.time()), "soak": soaking(), **line}) + "\n")


# The zygote, from outside -------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    ``status`` is as of subprocess: an exit code, or minus the signal. ``late`` says that it was
    killed because it took longer than it may.
    """

    status: int
    output: str
    errors: str
    seconds: float
    late: bool

    @property
    def killed(self) -> bool:
        """Whether it died by SIGKILL, not by the cap."""
        return self.status == -signal.SIGKILL and not self.late

    def said(self, word: str) -> list[str]:
        """The rest of each line that begins with a word."""
        lines = self.output.splitlines()
        return [line[len(word) + 1 :] for line in lines if line.split(" ", 1)[0] == word]

    def expect(self, *, killed: bool, about: str) -> Ended:
        """Itself, when it ended as it should.

        Raises:
            AssertionError: With what it said, when it did not.
        """
        right = self.killed if killed else self.status == 0
        if not right:
            wanted = "die by SIGKILL" if killed else "end well"
            how = "was too slow" if self.late else f"ended with {self.status}"
            raise AssertionError(
                f"{about}: a child should {wanted} but {how} after {self.seconds:.2f} s\n"
                f"--- it said\n{self.output[-2000:]}\n--- errors\n{self.errors[-4000:]}"
            )
        return self


class Child:
    """A forked child: it may be signalled by its ``pid``, then waited for."""

    def __init__(self, zygote: Zygote, pid: int, name: str) -> None:
        self.zygote = zygote
        self.pid = pid
        self.name = name

    def output(self) -> str:
        """What it has said so far."""
        return self.zygote.file(self.name, "out").read_text()

    def errors(self) -> str:
        """What it has said so far on the other channel."""
        return self.zygote.file(self.name, "err").read_text()

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def wait(self, seconds: float = CAP_SECONDS) -> Ended:
        """Wait for its end; after ``seconds`` it is killed."""
        answer = self.zygote.ask({"do": "wait", "pid": self.pid, "seconds": seconds})
        ended = Ended(
            answer["status"], self.output(), self.errors(), answer["seconds"], answer["late"]
        )
        for channel in ("out", "err"):
            self.zygote.file(self.name, channel).unlink(missing_ok=True)
        return ended


class Zygote:
    """Forks children that run a function of a module which it has imported.

    Args:
        modules: What to import before the first fork.

    Attributes:
        started: How many children there have been.
        busy_seconds: How long they have taken together.
    """

    def __init__(self, *modules: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="atoll-zygote-")
        self.started = 0
        self.busy_seconds = 0.0
        environment = {
            **os.environ,
            "PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}",
            "OPENBLAS_NUM_THREADS": "1",  # these libraries would start threads at import
            "OMP_NUM_THREADS": "1",
            "JE_ARROW_MALLOC_CONF": "background_thread:false",
        }
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "harness.py"), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self._read()  # ready, or the imports failed

    def file(self, name: str, channel: str) -> Path:
        """Where a child's output goes."""
        return Path(self._folder.name) / f"{name}.{channel}"

    def start(self, target: str, **arguments: Any) -> Child:
        """Fork a child that calls ``module:function`` with the arguments (plain JSON values)."""
        self.started += 1
        name = str(self.started)
        paths = [str(self.file(name, channel)) for channel in ("out", "err")]
        for path in paths:
            Path(path).touch()
        asked = {"do": "start", "target": target, "arguments": arguments, "paths": paths}
        return Child(self, self.ask(asked)["pid"], name)

    def run(self, target: str, cap_seconds: float = CAP_SECONDS, **arguments: Any) -> Ended:
        """Fork a child and wait for its end."""
        ended = self.start(target, **arguments).wait(cap_seconds)
        self.busy_seconds += ended.seconds
        return ended

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request, one answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End it, and whatever children still run."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the zygote has ended; its error stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def zygote(*modules: str) -> Iterator[Zygote]:
    """A zygote for the length of a ``with``."""
    made = Zygote(*modules)
    try:
        yield made
    finally:
        made.close()


def spread(
    work: Callable[[Zygote, Case], Any], cases: Iterable[Case], *modules: str
) -> list[tuple[Case, Any]]:
    """Do the work for every case, on a zygote per core.

    Returns:
        Each case with what came of it: the work's result, or the AssertionError it raised.
    """
    made = [Zygote(*modules) for _ in range(min(_CORES_MAX, os.cpu_count() or 1))]
    free: SimpleQueue[Zygote] = SimpleQueue()
    for each in made:
        free.put(each)

    def one(case: Case) -> tuple[Case, Any]:
        mine = free.get()
        try:
            return case, work(mine, case)
        except AssertionError as error:
            return case, error
        finally:
            free.put(mine)

    try:
        with ThreadPoolExecutor(len(made)) as pool:
            return list(pool.map(one, cases))
    finally:
        for each in made:
            each.close()


# The zygote, from inside --------------------------------------------------------------------------


def _serve(modules: list[str]) -> None:
    """Answer requests from standard input until it ends."""
    for name in modules:
        importlib.import_module(name)
    _warm_up()
    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.is_dir() else 1
    assert threads == 1, f"the zygote has {threads} threads: a fork would copy their locks"
    answers = os.fdopen(os.dup(1), "w")
    began: dict[int, float] = {}
    _answer(answers, {"ready": os.getpid()})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "start":
            pid = _fork(request)
            began[pid] = time.monotonic()
            _answer(answers, {"pid": pid})
        else:
            pid = request["pid"]
            status, late = _wait(pid, request["seconds"])
            seconds = time.monotonic() - began.pop(pid)
            _answer(answers, {"status": status, "late": late, "seconds": seconds})
    for pid in began:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _warm_up() -> None:
    """Import what pyarrow imports by itself when it first meets Python values; it takes long."""
    importlib.import_module("pandas")


def _answer(file: Any, value: dict[str, Any]) -> None:
    file.write(json.dumps(value) + "\n")
    file.flush()


def _fork(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for descriptor, path in zip((1, 2), request["paths"], strict=True):
                opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                os.dup2(opened, descriptor)
                os.close(opened)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            module, _, function = request["target"].partition(":")
            result = getattr(sys.modules[module], function)(**request["arguments"])
            status = int(result or 0)
        except BaseException:  # noqa: BLE001  # whatever it is: it is told, and the child ends
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return pid


def _wait(pid: int, seconds: float) -> tuple[int, bool]:
    """The child's status; it is killed when its time is over."""
    watched = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([watched], [], [], seconds)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(watched)
    return os.waitstatus_to_exitcode(status), not ready


if __name__ == "__main__":
    _serve(sys.argv[1:])
