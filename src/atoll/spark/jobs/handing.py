"""Hands what an attempt does to its tasks, beside their Spark job instead of inside it.

So a job's plan is the same from one microbatch to the next, and need not be made anew: that would
take as long as a small microbatch. Spark carries the properties that a thread sets to all tasks of
the jobs that it starts. What is long goes through a file, for Spark sends them with each task.
"""

from __future__ import annotations

import base64
import contextlib
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from atoll.engine.exchange.blobs import INLINE_BYTES_MAX, fetch, park

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from atoll.engine.program import JobSpec, Program


_VALUE = "atoll.spec"
_FILE = "atoll.spec.file"


@contextlib.contextmanager
def handing(session: SparkSession, program: Program, spec: JobSpec) -> Iterator[None]:
    """Let the tasks of the Spark jobs that this thread starts find a spec.

    Raises:
        StorageError: When a long one cannot be written.
    """
    data = pickle.dumps(spec, pickle.HIGHEST_PROTOCOL)
    if len(data) <= INLINE_BYTES_MAX:
        name, value = _VALUE, base64.b64encode(data).decode()
    else:
        name, value = _FILE, park(program, spec.id, pa.py_buffer(data))
    session.sparkContext.setLocalProperty(name, value)
    try:
        yield
    finally:
        session.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]  # unsets it


def handed_spec() -> JobSpec:
    """The spec of the attempt that the calling task belongs to.

    Raises:
        StorageError: When its file is gone: the attempt is over.
    """
    context = TaskContext.get()
    assert context is not None, "called in a task"
    value = context.getLocalProperty(_VALUE)
    if value is not None:
        data: bytes | pa.Buffer = base64.b64decode(value)
    else:
        file = context.getLocalProperty(_FILE)
        assert file is not None, "the thread that started the job handed a spec on"
        data = fetch(file)
    spec: JobSpec = pickle.loads(data)  # noqa: S301 - written by the driver
    return spec
