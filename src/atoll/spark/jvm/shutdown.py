"""End Spark in order: for processes that are about to end themselves.

A Java process whose driver is gone ends by itself, but its Python workers then find their sockets
closed and say so on stderr. Stopping the session first ends most of them in silence; one that is
just answering is cut off all the same. What they say reaches the terminal through the Java
process, so its stderr is closed before the session is stopped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def ending_spark() -> Iterator[None]:
    """When the block ends, however it ends, stop the session that this thread started, if any."""
    try:
        yield
    finally:
        from pyspark.sql import SparkSession

        with contextlib.suppress(*_gone()):  # Java has ended already
            session = SparkSession.getActiveSession()
            if session is not None:
                from atoll.spark.standing.tasks import dismiss

                dismiss(session)
                _close_stderr(session)
                session.stop()


def _gone() -> tuple[type[Exception], ...]:
    """What a call raises when there is no Java process any more."""
    from py4j.protocol import Py4JError

    return (Py4JError, OSError)


def _close_stderr(session: SparkSession) -> None:
    with contextlib.suppress(Exception):  # it is on its way out: nothing depends on this
        session.sparkContext._jvm.java.lang.System.err.close()  # type: ignore[union-attr]  # noqa: SLF001 - no public way
