"""What ``lit`` writes, as Spark reads it."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

from atoll import lit
from atoll.spark.session import local_session

TEXTS = ["it's", "'", "x' OR 'y", "a\\b", "\\", "\\'", "both ' and \"", "\\\\' OR '", "ä\n", ""]
VALUES = [7, -(2**62), True, None, 1.5, Decimal("1.50"), dt.date(2026, 1, 2), b"\x01\xff"]


def test_spark_reads_each_value_back():
    """Texts with whatever in them, numbers, and an instant."""
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    given = [*TEXTS, *VALUES, uuid.UUID(int=1)]
    texts = [*map(lit, given), f"unix_micros({lit(at)})"]
    named = [f"{text} AS c{number}" for number, text in enumerate(texts)]
    found = [
        bytes(each) if isinstance(each, bytearray) else each
        for each in local_session(2).range(1).selectExpr(*named).first()
    ]
    assert found[:-2] == given[:-1]
    assert found[-2:] == [str(given[-1]), 1_767_323_045_000_006]
