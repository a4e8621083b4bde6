"""Blocks of short rows are joined, those of long ones are not."""

from __future__ import annotations

import pyarrow as pa

from atoll.engine.exchange import reading

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def _block(rows, size):
    return pa.record_batch([pa.array(range(rows)), pa.array(["x" * size] * rows)], schema=SCHEMA)


def test_short_rows_are_joined_into_batches_worth_their_overhead():
    """Of 100 blocks of 100 rows, three batches."""
    batches = list(reading._joined(iter([_block(100, 5)] * 100), SCHEMA))
    assert [batch.num_rows for batch in batches] == [4_100, 4_100, 1_800]


def test_long_rows_are_not(monkeypatch):
    """However many would be missing: what is held at once ends at a number of bytes."""
    monkeypatch.setattr(reading, "_BYTES_PER_BATCH_MAX", 1_000_000)
    batches = list(reading._joined(iter([_block(3, 100_000)] * 10), SCHEMA))
    assert [batch.num_rows for batch in batches] == [9, 9, 9, 3]
    fat = list(reading._joined(iter([_block(1, 5), _block(1, 2_000_000), _block(1, 5)]), SCHEMA))
    assert [batch.num_rows for batch in fat] == [1, 1, 1]
    assert sum(batch.num_rows for batch in fat) == 3
