"""What a service tells piece by piece, made of its frames: changes, records, values.

Everything here is without a connection: frames in, what a caller gets out, and where to go on.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from atoll.client.asking.calls import Call
from atoll.client.errors import error_of
from atoll.codec.values.exchange import Frames
from atoll.depot.receipt import Awaited, Receipt
from atoll.depot.start import StartFrom
from atoll.depot.tail import TailBatch
from atoll.errors import UsageError
from atoll.pstate.differences import Difference
from atoll.views.value_change import ValueChange

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Telling(Protocol[T_co]):
    """What is told: how it is asked for, and what comes of a frame."""

    @property
    def position(self) -> str | None:
        """Up to where all is told."""

    def call(self, *, first: bool) -> Call[Any]:
        """What asks for it, from the position on."""

    def of_frame(self, frame: Mapping[str, Any]) -> T_co | None:
        """What a frame tells; None when nothing but the position."""


class FrameReader(Generic[T]):
    """Makes what is told of the bytes of one answer.

    Args:
        telling: What is told.

    Attributes:
        ended: Whether the service said that it is all.
    """

    def __init__(self, telling: Telling[T]) -> None:
        self._telling = telling
        self._frames = Frames()
        self.ended = False

    def feed(self, data: bytes) -> list[T]:
        """What is whole by now.

        Raises:
            AtollError: What the service tells as the reason of its end.
        """
        found = []
        for frame in self._frames.feed(data):
            if "problem" in frame:
                raise error_of(frame["problem"])
            self.ended = self.ended or "end" in frame
            told = self._telling.of_frame(frame)
            if told is not None:
                found.append(told)
        return found


class ChangesTold:
    """The changes of one value.

    Args:
        call: Asks for them.
        after: The position to begin behind; a token; None for the value first.
    """

    def __init__(self, call: Call[Any], after: str | None) -> None:
        self._call = call
        self._after = after
        self.position: str | None = None

    def call(self, *, first: bool) -> Call[Any]:
        """From the position on; from where it was to begin before there is one."""
        del first
        after = self.position or self._after
        params = {**self._call.params, **({} if after is None else {"after": after})}
        return _with(self._call, params)

    def of_frame(self, frame: Mapping[str, Any]) -> ValueChange | None:
        """A change."""
        if "change" not in frame:
            self.position = frame.get("position") or self.position
            return None
        told = frame["change"]
        change = ValueChange(
            kind=told["kind"],
            microbatch=told["microbatch"],
            timeline=told["timeline"],
            differences=tuple(map(_difference, told["differences"])),
            old=told["old"],
            new=told["new"],
            page=told["page"],
            last=told["last"],
            reason=told["reason"],
        )
        self.position = change.position if change.last else None
        return change


class RecordsTold:
    """The records of a depot.

    Args:
        call: Asks for them.
        start: Where to begin.
        row_class: The class that the depot was declared with, where it is known.
    """

    def __init__(self, call: Call[Any], start: str, row_class: type | None) -> None:
        self._call = call
        self._start = start
        self._row_class = row_class
        self.position: str | None = None

    def call(self, *, first: bool) -> Call[Any]:
        """From the position on."""
        del first
        return _with(self._call, {**self._call.params, "from": self.position or self._start})

    def of_frame(self, frame: Mapping[str, Any]) -> TailBatch | None:
        """A batch."""
        self.position = frame.get("position") or self.position
        if "arrow" not in frame:
            return None
        table = pa.ipc.open_stream(frame["arrow"]).read_all()
        start = frame["offset"]
        return TailBatch(
            frame["partition"],
            start,
            start + table.num_rows,
            table,
            frame["position"],
            self._row_class,
        )


@dataclass
class ValuesTold:
    """The values of an iteration, some at a time; it cannot go on where it was cut off."""

    asking: Call[Any]
    position: None = None

    def call(self, *, first: bool) -> Call[Any]:
        """From the beginning.

        Raises:
            UsageError: When it had begun: another commit may be read then.
        """
        if not first:
            raise UsageError(
                "the connection was lost while values were read", hint="read again from the start"
            )
        return self.asking

    def of_frame(self, frame: Mapping[str, Any]) -> list[Any] | None:
        """Some values."""
        return frame.get("values")


def start_text(
    module: str,
    depot: str,
    start: StartFrom | Receipt | Awaited | Mapping[int, int] | int | str | None,
    spans: Sequence[tuple[int, int]],
) -> str:
    """Where a tail begins, as a request says it.

    Args:
        module: The module.
        depot: The depot.
        start: What the caller said.
        spans: By depot partition the first offset and the one behind the last.
    """
    match start:
        case None:
            return "beginning"
        case str() | int():
            return str(start)
        case Receipt() | Awaited():
            return start.token
        case StartFrom(kind="records"):
            ends = {part: max(low, end - start.amount) for part, (low, end) in enumerate(spans)}
            return Awaited(module, depot, ends).token
        case StartFrom(kind="timestamp" | "milliseconds"):
            ago = start.kind == "milliseconds"
            at_ms = time.time() * 1000 - start.amount if ago else start.amount
            return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat()
        case StartFrom():
            return start.kind
    return Awaited(module, depot, dict(start)).token


def _difference(told: Mapping[str, Any]) -> Difference:
    return Difference(
        tuple(told["path"]), told["kind"], told["old"], told["new"], told.get("index")
    )


def _with(call: Call[Any], params: Mapping[str, str]) -> Call[Any]:
    return replace(call, params=params)
