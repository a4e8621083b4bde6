"""What an attempt reads, in numbers: rows, and how long they are where they are stored."""

from __future__ import annotations

import pytest

from atoll.depot.segments.blocks import BlockRef
from atoll.engine.attempt import row_bytes_of, rows_of
from atoll.engine.program import JobSpec, Split
from atoll.pstate.store.history import FileRef


def block(length, rows, take):
    """Some rows of a block of so many bytes."""
    return BlockRef("file", 0, length, 0, rows, 0, take, 0, 0)


def spec(*splits):
    """A job that reads these."""
    return JobSpec(1, 1, 0, 0, 0, (splits,))


@pytest.mark.parametrize(
    ("splits", "rows", "row_bytes"),
    [
        ((), 0, 0.0),
        ((Split(0),), 0, 0.0),
        ((Split(0, tick=(1, 1_000)),), 1, 0.0),
        ((Split(0, (block(1_000, 10, 4),)),), 4, 100.0),
        ((Split(0, (block(1_000, 10, 10), block(600, 2, 1))),), 11, 300.0),
        ((Split(0, (block(40, 4, 4),)), Split(1, files=(FileRef("rows", 90, 0, 3),))), 7, 30.0),
        ((Split(0, files=(FileRef("none", 500, 0, 0),)),), 0, 0.0),
    ],
    ids=["nothing", "no rows", "a tick", "part of a block", "two blocks", "files", "an empty file"],
)
def test_rows_and_their_length(splits, rows, row_bytes):
    """Of a block that is read in part, the mean of all its rows counts."""
    assert rows_of(spec(*splits)) == rows
    assert row_bytes_of(spec(*splits)) == row_bytes
