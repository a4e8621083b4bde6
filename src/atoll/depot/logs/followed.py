"""A depot whose records lie in a log that others keep, such as a topic of Kafka.

Nothing of it lies on the root but how far it was read. A plan names offsets of that log, and the
tasks read exactly these from it. Offsets may have no record: those are no loss, but they are
counted, so that what was read and what was not add up to the range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from atoll.depot.mirror import MirrorDepot
from atoll.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.depot.segments.blocks import BlockRef


class LogRows(NamedTuple):
    """Records that were read, in their order, and where each of them lies."""

    batch: pa.RecordBatch
    offsets: NDArray[np.int64]


class LogReader(Protocol):
    """Reads a log from any process; it is pickled with the program of a topology."""

    def read(self, depot: str, refs: Sequence[BlockRef]) -> Iterator[tuple[int, LogRows]]:
        """The records of ranges of offsets, as they are stored.

        A reference means the offsets from ``offset + skip`` on, as many as ``take``. That it ends
        without an error says that each of these offsets was looked at.

        Yields:
            Which of the references, and records of it; the references in their order.

        Raises:
            OvertakenError: When retention has deleted offsets of a range.
            LogError: When the log cannot be read.
        """


class LogDepot(MirrorDepot, ABC):
    """Follows a log for the coordinators of a process."""

    @property
    @abstractmethod
    def reader(self) -> LogReader:
        """What tasks read it with."""

    @property
    @abstractmethod
    def described(self) -> Mapping[str, Any]:
        """What the deployment object keeps of it: nothing secret, and what tells it from others."""

    @abstractmethod
    def last_seen(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Start and end offsets as they were last found; nobody is asked."""

    @abstractmethod
    def check_progress(
        self, done: Sequence[int], starts: Sequence[int], ends: Sequence[int]
    ) -> None:
        """Hold that all after what was read is still there.

        Raises:
            OvertakenError: When retention has deleted some of it, and that is not declared.
            LogError: When the log ends before that.
        """


class _HasEnds(Protocol):
    def end_offsets(self) -> tuple[int, ...]: ...


def ends_seen(depot: _HasEnds) -> tuple[int, ...]:
    """The end offsets to show: of a log those found last, since asking may take long."""
    return depot.last_seen()[1] if isinstance(depot, LogDepot) else depot.end_offsets()


def logs_seen(depots: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """What was last seen of the logs among some depots, by name, as a status shows depots."""
    found = {}
    for name, log in depots.items():
        if isinstance(log, LogDepot):
            starts, ends = log.last_seen()
            kept = {"start_offsets": list(starts), "end_offsets": list(ends), "parcels": []}
            found[name] = {**kept, "log": dict(log.described)}
    return found


def refuse_log(depots: Mapping[str, object], name: str) -> str:
    """The name of a depot: hold that a depot is none whose records lie in a log.

    Raises:
        UsageError: When it is.
    """
    if isinstance(depots.get(name), LogDepot):
        raise UsageError(
            f"the records of depot {name!r} lie in a log that others keep",
            hint="append to that log and read it with a client of its own",
        )
    return name
