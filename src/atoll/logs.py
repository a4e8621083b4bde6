"""Loggers: structured fields over the standard library's logging, so that the host decides.

A library must not print. Loggers from here render their fields as ``key=value`` and hand the line
to ``logging``, whose default shows warnings and worse on stderr and nothing else.
"""

from __future__ import annotations

import logging
from typing import Any

import structlog

__all__ = ["get_logger"]


def get_logger(name: str) -> Any:
    """A structlog logger over ``logging.getLogger(name)``; leaves global settings alone."""
    return structlog.wrap_logger(
        logging.getLogger(name),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
    )
