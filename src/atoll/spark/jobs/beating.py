"""How tasks of ordinary Spark jobs say what they are at: each in a file, every second that it runs.

They have no other way to the driver while they run. The file has one name for all trials of a
task, so that what a trial that died left behind is not taken for a task that is silent.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext

from atoll.beats import Beat, Task, watched
from atoll.engine.exchange.blobs import failure_file

if TYPE_CHECKING:
    from atoll.engine.program import JobSpec, Program
    from atoll.microbatch.stragglers import Stragglers

_PART = ".part"
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Beat)


def _folder(program: Program, spec: JobSpec) -> Path:
    name = f"beats-{spec.epoch}-{spec.version}-{spec.job}"
    return failure_file(program, spec).with_name(name)


@contextlib.contextmanager
def beating(program: Program, spec: JobSpec, kind: str, number: int) -> Iterator[Task]:
    """Let the calling task of Spark's say every second what it is at, until it has ended.

    Args:
        program: The topology.
        spec: The job that it is part of.
        kind: What it is.
        number: Which of them.
    """
    context = TaskContext.get()
    assert context is not None, "called in a task"
    name = f"{context.stageId()}-{context.partitionId()}-{kind.replace(' ', '-')}"
    path = _folder(program, spec) / name
    own = path.with_name(f"{name}-{os.getpid()}{_PART}")

    def tell(beat: Beat) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        own.write_bytes(_encoder.encode(beat))
        own.replace(path)

    with watched(Task(kind, number), tell) as task:
        try:
            yield task
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


class TaskBeats:
    """What the tasks of one job of one attempt say, for the driver."""

    def __init__(self, program: Program, spec: JobSpec) -> None:
        self._folder = _folder(program, spec)
        self._known: set[str] = set()

    def hear(self, stragglers: Stragglers, now: float) -> None:
        """Take what all tasks say that run; the others have ended."""
        found = set()
        with contextlib.suppress(FileNotFoundError):
            for file in self._folder.iterdir():
                with contextlib.suppress(OSError, msgspec.DecodeError):
                    if not file.name.endswith(_PART):
                        stragglers.heard(file.name, _decoder.decode(file.read_bytes()), now)
                        found.add(file.name)
        for name in self._known - found:
            stragglers.over(name)
        self._known = found
