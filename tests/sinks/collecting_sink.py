"""A sink in memory that fails, dies and waits as a test says, and holds what a server would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from atoll.errors import SinkError
from atoll.sinks import Guarantee, Opening, Sink, SinkParcel, SinkRows, SinkWriter


@dataclass
class Server:
    """Outlives every process that writes to it."""

    parcels: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    seen: list[SinkParcel] = field(default_factory=list)
    last: int = 0
    fails: Callable[[int], Exception | None] = lambda _: None
    loses_answer: set[int] = field(default_factory=set)
    gate: threading.Event | None = None
    refuses: str = ""
    identities: list[str] = field(default_factory=list)
    openings: int = 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows in order."""
        return [row for number in sorted(self.parcels) for row in self.parcels[number]]


@dataclass(frozen=True)
class Collecting(Sink):
    """Writes to a server in memory; exactly once."""

    server: Server
    mode: str = "rows"

    kind: ClassVar[str] = "collecting"
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    @property
    def target(self) -> str:
        """Nowhere."""
        return "memory"

    @property
    def signature(self) -> Mapping[str, str]:
        """Its mode."""
        return {"mode": self.mode}

    def check(self, rows: SinkRows) -> None:
        """Refuse a column that the server refuses."""
        if self.server.refuses in rows.schema.names:
            raise SinkError(f"no column {self.server.refuses} here", hint="leave it out")

    def open(self, opening: Opening) -> SinkWriter:
        """Connect."""
        self.server.openings += 1
        self.server.identities.append(opening.identity)
        return _Writer(self.server)


@dataclass(frozen=True)
class Forgetful(Collecting):
    """The same without a number in the target; at least once."""

    kind: ClassVar[str] = "forgetful"
    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    def open(self, opening: Opening) -> SinkWriter:
        """Connect."""
        self.server.openings += 1
        return _ForgetfulWriter(self.server)


class _Writer(SinkWriter):
    def __init__(self, server: Server) -> None:
        self.server = server

    def last_written(self) -> int | None:
        return self.server.last

    def write(self, parcel: SinkParcel) -> None:
        server = self.server
        if server.gate is not None:
            server.gate.wait()
        error = server.fails(parcel.number)
        if error is not None:
            raise error
        if parcel.number <= server.last:
            return
        assert parcel.number == server.last + 1
        server.parcels[parcel.number] = parcel.table().to_pylist()
        server.seen.append(parcel)
        server.last = parcel.number
        if parcel.number in server.loses_answer:
            server.loses_answer.remove(parcel.number)
            raise ConnectionError("the answer was lost")


class _ForgetfulWriter(_Writer):
    def last_written(self) -> int | None:
        return None

    def write(self, parcel: SinkParcel) -> None:
        self.server.seen.append(parcel)
        self.server.parcels[parcel.number] = parcel.table().to_pylist()
