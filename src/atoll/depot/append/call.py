"""One append call: its batches go by once, and what they come to is known at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from atoll.codec.records.refusals import Checked, Refusals
from atoll.depot.append.stream import StreamAppend
from atoll.depot.producers.fingerprint import RecordsCrc
from atoll.depot.producers.resent import Resent


class AppendCall:
    """Takes in the batches of one call.

    Args:
        stream: Where good records go.
        all_or_nothing: Whether one refused record refuses the call.
        crc: The fingerprint to make of the records, for a producer's append.
        resent: What to compare with, for a number that is stored since before a migration.
    """

    def __init__(
        self,
        stream: StreamAppend,
        *,
        all_or_nothing: bool,
        crc: RecordsCrc | None,
        resent: Resent | None,
    ) -> None:
        self.refusals = Refusals()
        self.count = 0
        self._stream = stream
        self._all_or_nothing = all_or_nothing
        self._crc = crc
        self._resent = resent

    @property
    def refused(self) -> bool:
        """Whether nothing of the call may be stored."""
        return self._all_or_nothing and self.refusals.count > 0

    def take(self, batches: Iterable[Checked], progress: Callable[[int], None] | None) -> None:
        """Take in all batches; after a refused record only to name and count the others."""
        for checked in batches:
            self.refusals.extend(checked.refusals, checked.refused_count)
            self.count += checked.batch.num_rows
            if self.refused:
                self._stream.discard()
            else:
                self._stream.add(checked)
                if self._crc is not None:
                    self._crc.add(checked.batch)
            if self._resent is not None:
                self._resent.add(checked)
            if progress is not None:
                progress(self.count + self.refusals.count)
