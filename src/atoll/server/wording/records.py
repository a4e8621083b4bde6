"""The records of a tail on their way out: events, lines of JSON, or an Arrow stream.

Each piece says its depot partition, the first record's offset and the position behind it, so that
whoever lost the connection goes on with the next record, whichever of the three was read.
"""

from __future__ import annotations

import io
import json
from typing import Any, ClassVar

import pyarrow as pa

from atoll.depot.tail import TailBatch
from atoll.errors import AtollError
from atoll.server.event_stream import Events, event_text
from atoll.server.guard import ARROW_STREAM, NDJSON
from atoll.server.problems import problem_for
from atoll.server.render import render_json


class RecordEvents(Events):
    """Server-sent events named ``records``; the id is the position."""

    def piece(self, told: TailBatch) -> bytes:
        """A batch."""
        return event_text("records", render_json(_plain(told)), told.position)


class RecordLines:
    """A line of JSON for each batch; one with the position alone shows that it is there."""

    media_type: ClassVar[str] = NDJSON

    def head(self) -> bytes:
        """Nothing."""
        return b""

    def piece(self, told: TailBatch) -> bytes:
        """A batch."""
        return render_json({**_plain(told), "position": told.position}) + b"\n"

    def alive(self, position: str | None) -> bytes:
        """The position."""
        return render_json({"position": position}) + b"\n"

    def problem(self, error: AtollError) -> bytes:
        """The problem, as the last line."""
        return render_json({"problem": problem_for(error)}) + b"\n"

    def end(self) -> bytes:
        """Nothing: the answer ends."""
        return b""


class RecordArrow:
    """An Arrow stream; what else there is to say is in the metadata of batches.

    Args:
        schema: The depot's.
    """

    media_type: ClassVar[str] = ARROW_STREAM

    def __init__(self, schema: pa.Schema) -> None:
        self._written = Written()
        self._writer = pa.ipc.new_stream(self._written, schema)
        self._empty = pa.RecordBatch.from_pylist([], schema=schema)

    def head(self) -> bytes:
        """The schema."""
        return self._written.taken()

    def piece(self, told: Any) -> bytes:
        """A batch; its metadata are ``partition``, ``offset`` and ``position``."""
        about = {"partition": told.partition, "offset": told.start, "position": told.position}
        (batch,) = told.table.combine_chunks().to_batches() or [self._empty]
        return self._batch(batch, about)

    def alive(self, position: str | None) -> bytes:
        """A batch without records, with ``position``."""
        return self._batch(self._empty, {"position": position})

    def problem(self, error: AtollError) -> bytes:
        """A batch without records, with ``problem`` as JSON, and no proper end."""
        return self._batch(self._empty, {"problem": json.loads(render_json(problem_for(error)))})

    def end(self) -> bytes:
        """The end of the stream, by which a reader knows that it has all."""
        self._writer.close()
        return self._written.taken()

    def _batch(self, batch: pa.RecordBatch, about: dict[str, Any]) -> bytes:
        texts = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in about.items()
        }
        self._writer.write_batch(batch, custom_metadata=texts)
        return self._written.taken()


class Written(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Keep a piece."""
        piece = bytes(data)
        self._pieces.append(piece)
        self._length += len(piece)
        return len(piece)

    def tell(self) -> int:
        """How much was written in all."""
        return self._length

    def taken(self) -> bytes:
        """What was written since the last time."""
        found, self._pieces = b"".join(self._pieces), []
        return found


def _plain(told: TailBatch) -> dict[str, Any]:
    return {"partition": told.partition, "offset": told.start, "records": told.rows()}
