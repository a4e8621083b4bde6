"""What clients of Atoll's own read: a stream of framed values, each exactly as it is.

A frame is a map. One with ``position`` alone shows that the service is there, one with ``problem``
is the last and says why, one with ``end`` says that all was told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

import pyarrow as pa

from atoll.codec.values.exchange import VALUES, framed
from atoll.depot.tail import TailBatch
from atoll.errors import AtollError
from atoll.server.problems import problem_for
from atoll.server.render import render_json
from atoll.views.value_change import ValueChange

_VALUES_PER_FRAME = 1000


class ValueFrames:
    """Frames of values: ``{"values": [...]}``."""

    media_type: ClassVar[str] = VALUES

    def head(self) -> bytes:
        """That it is there."""
        return framed({"position": None})

    def piece(self, told: Any) -> bytes:
        """Some values."""
        return framed({"values": told})

    def alive(self, position: str | None) -> bytes:
        """The position."""
        return framed({"position": position})

    def problem(self, error: AtollError) -> bytes:
        """The problem, as plain data."""
        return framed({"problem": json.loads(render_json(problem_for(error)))})

    def end(self) -> bytes:
        """That all was told."""
        return framed({"end": True})


class ChangeFrames(ValueFrames):
    """The changes of a subscription: ``{"change": {...}}``."""

    def piece(self, told: ValueChange) -> bytes:
        """A change."""
        return framed({"change": told.as_dict()})


class RecordFrames(ValueFrames):
    """The records of a tail: ``{"partition": 0, "offset": 5, "position": "r...", "arrow": ...}``.

    The records are an Arrow stream of their own, so that a frame can be read by itself.
    """

    def piece(self, told: TailBatch) -> bytes:
        """A batch."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, told.table.schema) as writer:
            writer.write_table(told.table)
        return framed(
            {
                "partition": told.partition,
                "offset": told.start,
                "position": told.position,
                "arrow": sink.getvalue().to_pybytes(),
            }
        )


class ValuesTold:
    """The values of an iteration, some at a time, when they are asked for.

    Args:
        values: The iteration.
    """

    position: ClassVar[None] = None

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values
        self.closed = False

    def next(self, timeout_seconds: float | None = None) -> list[Any] | None:
        """The next values; None at the end."""
        del timeout_seconds
        found = [] if self.closed else list(islice(self._values, _VALUES_PER_FRAME))
        self.closed = not found
        return found or None

    def close(self, error: AtollError | None = None) -> None:
        """Read no more."""
        del error
        self.closed = True
