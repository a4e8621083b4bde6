"""The class path of a Kafka broker: its own jars, and pyspark's."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "world"))  # a broker's keeper has none of pytest

from jars import NoJarsError, fetched, java

__all__ = ["NoJarsError", "broker_class_path", "java"]


def broker_class_path() -> str:
    """What a broker runs with; its jars are fetched when they are not there.

    Raises:
        NoJarsError: When they cannot be had.
    """
    import pyspark

    return f"{fetched('kafka')}/*:{Path(pyspark.__file__).parent / 'jars'}/*"
