"""Signs of life of running tasks: what each is at, and that it goes on.

A task that runs in a thread says what it is at and beats as it goes on: with every batch, every
row that a user's function is called with, every store and file. A beat is a number that grows; no
clock is read and nothing is sent, so it costs some ten nanoseconds. What it is at changes with
batches and stores, not with rows; then the clock is read, and so it knows how long it was at each
step. Whoever watches looks at the
number once in a while: a number that stays is a task that is silent, and then the watcher also
looks where its Python code stands.

A beat is the place, too, where a task that was given up ends: there, and nowhere else, it is told.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import msgspec

_Each = TypeVar("_Each")

BEAT_SECONDS = 1.0
"""How often the tasks of a process are looked at."""

_FRAMES_MAX = 5


class TaskEndedError(BaseException):
    """A task that was given up is told so at its next beat.

    No ``Exception``: neither a user's function nor who sets its rows aside may take it for one
    of the user's.
    """


class Beat(msgspec.Struct, frozen=True):
    """What a task was found at."""

    task: str
    """What it is: ``actor``, ``reading task``."""
    number: int
    """Of an actor its unit, else which of its kind it is."""
    count: int
    """How often it has beaten."""
    step: str = ""
    """The step that it runs, with its place, or what it does besides; empty while it waits for
    Spark, which is no silence of its own."""
    tag: int | None = None
    """The number of that step in its topology, of a step with state."""
    stack: str = ""
    """Where its Python code stands, the innermost call first, when it has been silent."""


class Task:
    """What runs in one thread. Written by that thread, looked at by others."""

    __slots__ = (
        "_lap",
        "_since",
        "_spent",
        "at",
        "beats",
        "ended",
        "kind",
        "number",
        "tag",
        "thread",
    )

    def __init__(self, kind: str, number: int) -> None:
        self.kind = kind
        self.number = number
        self.at: Any = "start"
        self.tag: int | None = None
        self.beats = 0
        self.ended = False
        self.thread = threading.get_ident()
        self._spent: dict[int, list[Any]] = {}
        self._lap: list[Any] | None = None
        self._since = 0.0

    def beat(self) -> None:
        """It goes on.

        Raises:
            TaskEndedError: When it was given up.
        """
        self.beats += 1
        if self.ended:
            raise TaskEndedError

    def part(self, kind: str, number: int) -> None:
        """It is another one of several that run in one thread, one after the other.

        Raises:
            TaskEndedError: When it was given up.
        """
        self.kind = kind
        self.number = number
        self.begin("start")

    def begin(self, at: Any, tag: int | None = None) -> None:
        """It goes on with something else.

        Args:
            at: A text, words that make one when somebody asks, or a step with title and place.
            tag: The step's number in its topology, of one with state.

        Raises:
            TaskEndedError: When it was given up.
        """
        now = time.perf_counter()
        lap = self._lap
        if lap is not None:
            lap[1] += now - self._since
        if isinstance(at, str | tuple):
            self._lap = None
        else:
            self._lap = self._spent.setdefault(id(at), [at, 0.0])
        self._since = now
        self.at = at
        self.tag = tag
        self.beat()

    def spent_ms(self) -> dict[str, float]:
        """How long it was at each step since it was asked before, by title and place."""
        at, tag = self.at, self.tag
        self.begin("counting")
        spent: dict[str, float] = {}
        for step, seconds in self._spent.values():
            name = _name(step)
            spent[name] = spent.get(name, 0.0) + seconds * 1000.0
        self._spent.clear()
        self.begin(at, tag)
        return spent

    def each(self, items: Iterable[_Each]) -> Iterator[_Each]:
        """The same items, with a beat before each."""
        for item in items:
            self.beat()
            yield item

    def awaited(self, items: Iterable[_Each]) -> Iterator[_Each]:
        """Items that come from Spark: waiting for one is not the task's own silence."""
        iterator = iter(items)
        while True:
            at, tag = self.at, self.tag
            self.begin("")
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self.begin(at, tag)
            yield item

    def handed(self, items: Iterable[_Each]) -> Iterator[_Each]:
        """Items that go to Spark: while it takes one, the task waits."""
        for item in items:
            at, tag = self.at, self.tag
            self.begin("")
            yield item
            self.begin(at, tag)

    def found(self, before: int = -1) -> Beat:
        """What it is at now; with where its code stands, if it has not beaten since ``before``."""
        beats, at = self.beats, self.at
        if isinstance(at, tuple):
            step = " ".join(map(str, at))
        else:
            step = at if isinstance(at, str) else _name(at)
        stack = stack_of(self.thread) if step and beats == before else ""
        return Beat(self.kind, self.number, beats, step, self.tag, stack)


def _name(step: Any) -> str:
    return f"{step.title} ({step.place})"


class _Present(threading.local):
    """The task of each thread; one that nobody watches where there is none."""

    def __init__(self) -> None:
        self.task = Task("", 0)


_present = _Present()


def present() -> Task:
    """The task that the calling thread runs."""
    return _present.task


@contextlib.contextmanager
def running(task: Task) -> Iterator[Task]:
    """Let the calling thread run a task."""
    before = _present.task
    task.thread = threading.get_ident()
    _present.task = task
    try:
        yield task
    finally:
        _present.task = before


def stack_of(thread: int) -> str:
    """Where the Python code of a thread stands, the innermost call first; empty when it is over."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the one way to see another thread
    calls: list[str] = []
    while frame is not None and len(calls) < _FRAMES_MAX:
        calls.append(_call(frame))
        frame = frame.f_back
    return " < ".join(calls)


def _call(frame: FrameType) -> str:
    code = frame.f_code
    return f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}"


class _Told:
    """Who is told about a task, until it is over."""

    def __init__(self, tell: Callable[[Beat], None]) -> None:
        self._tell = tell
        self._over = False
        self._lock = threading.Lock()
        self.count = -1

    def look(self, task: Task) -> None:
        """Tell what it is at."""
        beat = task.found(self.count)
        self.count = beat.count
        with self._lock, contextlib.suppress(Exception):  # who is told is gone: it ends soon
            if not self._over:
                self._tell(beat)

    def end(self) -> None:
        """It is over: nothing is told from now on."""
        with self._lock:
            self._over = True


class _Watcher:
    """Looks at the tasks of this process, in a thread that sleeps while there are none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tasks: dict[Task, _Told] = {}
        self.wanted = threading.Event()
        self.thread: threading.Thread | None = None

    def add(self, task: Task, told: _Told) -> None:
        with self.lock:
            self.tasks[task] = told
            if self.thread is None:
                self.thread = threading.Thread(target=self._look, name="atoll-beats", daemon=True)
                self.thread.start()
        self.wanted.set()

    def remove(self, task: Task) -> None:
        with self.lock:
            self.tasks.pop(task, None)

    def _look(self) -> None:
        never = threading.Event()
        while True:
            self.wanted.wait()
            never.wait(BEAT_SECONDS)
            with self.lock:
                found = list(self.tasks.items())
                if not found:
                    self.wanted.clear()
            for task, told in found:
                told.look(task)


_watcher = _Watcher()


@contextlib.contextmanager
def watched(task: Task, tell: Callable[[Beat], None]) -> Iterator[Task]:
    """Run a task, of which somebody else is told about every second what it is at.

    Args:
        task: The calling thread's from now on.
        tell: Called in another thread, never when this is over; what it raises goes nowhere.
    """
    told = _Told(tell)
    _watcher.add(task, told)
    try:
        with running(task):
            yield task
    finally:
        _watcher.remove(task)
        told.end()
