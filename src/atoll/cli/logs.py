"""Logs of the processes that the command line starts: to stderr, a line each, quiet by default."""

from __future__ import annotations

import logging
import sys
from typing import TextIO


class _CurrentStderr(logging.Handler):
    """Writes to what is stderr at the moment of logging: a live view may have replaced it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        stream: TextIO = sys.stderr
        try:
            stream.write(self.format(record) + "\n")
            stream.flush()
        except (OSError, ValueError):  # stderr is closed: nobody is left to be told
            return


def configure_logs(*, verbose: bool = False) -> None:
    """Show Atoll's log: warnings and worse, with ``verbose`` everything that happens."""
    handler = _CurrentStderr()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("atoll")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    logger.propagate = False
    # Spark's Python side reports every lost connection at the end; what matters is raised.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
