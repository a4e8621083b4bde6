"""Appends on their way out: checked and written here, numbered so that none is stored twice.

The records are checked against the depot's schema by what the depot itself checks them with, so
that the same of them are refused for the same reasons. What is sent lies in memory, or in a
temporary file where it is large: an append whose answer was lost is sent again as it was.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked, Refusal, Refusals
from atoll.depot import Producer
from atoll.depot.append.checking import refused_error
from atoll.errors import UsageError

ARROW_STREAM = "application/vnd.apache.arrow.stream"

_IN_MEMORY_BYTES_MAX = 16 << 20
_PIECE_BYTES = 1 << 20


class Written:
    """Records written for one append. Close it.

    Args:
        batches: The checked records.
        codec: What checked them.
        depot: The depot, for errors.
        on_invalid: ``none`` or ``keep``.

    Raises:
        RecordsRefusedError: With ``none``, when a record does not fit; nothing is sent then.
    """

    def __init__(
        self, batches: Iterable[Checked], codec: RecordCodec, depot: str, on_invalid: str
    ) -> None:
        if on_invalid not in {"none", "keep"}:
            raise UsageError(f"on_invalid cannot be {on_invalid!r}", hint="use 'none' or 'keep'")
        self.refusals = Refusals()
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES_MAX)  # noqa: SIM115
        try:
            with pa.ipc.new_stream(self._file, codec.schema) as writer:
                for checked in batches:
                    self.refusals.extend(checked.refusals, checked.refused_count)
                    if checked.batch.num_rows:
                        writer.write_batch(checked.batch)
            self._hold(depot, on_invalid)
        except BaseException:
            self._file.close()
            raise

    def _hold(self, depot: str, on_invalid: str) -> None:
        if self.refusals.count and on_invalid == "none":
            raise refused_error(self.refusals, depot)

    def pieces(self) -> Iterator[bytes]:
        """What is sent, from its beginning."""
        self._file.seek(0)
        while piece := self._file.read(_PIECE_BYTES):
            yield piece

    def all_refused(self, later: list[Refusal], count: int) -> tuple[list[Refusal], int]:
        """The refusals here, and those of the service, which has got another schema meanwhile."""
        merged = Refusals()
        merged.extend(self.refusals.kept, self.refusals.count)
        merged.extend(later, count)
        return merged.kept, merged.count

    def close(self) -> None:
        """Forget it."""
        self._file.close()


class Producers:
    """Names for the appends of one client: one at a time under each. Safe from any thread."""

    def __init__(self) -> None:
        self._life = secrets.token_hex(12)
        self._made = 0
        self._free: dict[str, list[Producer]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def numbered(self, depot: str) -> Iterator[Producer]:
        """The name and number of one append.

        When it fails it is not known whether the number was taken, so its name is used no more.
        """
        with self._lock:
            free = self._free.setdefault(depot, [])
            producer = free.pop() if free else self._fresh()
        yield producer
        with self._lock:
            free.append(Producer(producer.id, producer.sequence + 1))

    def _fresh(self) -> Producer:
        self._made += 1
        return Producer(f"client/{self._life}/{self._made}", 0)
