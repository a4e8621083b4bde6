"""End Spark in order: for processes that are about to end themselves.

A Java process whose driver is gone ends by itself, but its Python workers then find their sockets
closed and say so on stderr. Stopping the session first ends them in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ending_spark"]


@contextmanager
def ending_spark() -> Iterator[None]:
    """When the block ends, however it ends, stop the session that this thread started, if any."""
    try:
        yield
    finally:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
