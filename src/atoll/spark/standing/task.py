"""What a standing task runs: connect, prove itself, then do one piece of work after the other.

It ends when the driver lets go, which is also how it notices that the driver is gone. What goes
wrong in a piece of work is answered as data; only what breaks the connection ends the task.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from atoll.beats import Beat, Task, present, watched
from atoll.engine.actor import ACTOR, run_actor
from atoll.engine.attempt import described
from atoll.engine.exchange.ahead import ReadAhead, Shares, alone_ahead, share_ahead
from atoll.engine.exchange.blobs import Blob, failure_in, unwrap, wrap, wrapped
from atoll.engine.exchange.feeding import READER, fed, packed_alone
from atoll.engine.exchange.waybills import attempt_of
from atoll.engine.program import JobSpec, Program
from atoll.engine.warming import warm_up
from atoll.microbatch.outcome import Manifest
from atoll.spark.shipping import Shipped, is_loaded
from atoll.spark.standing.messages import Hello, Part, Reply, Request, Result, Warming, Work
from atoll.spark.standing.wire import Wire, prove

Address = str | tuple[str, int]
"""Of a Unix socket its path; else host and port."""

_CONNECT_SECONDS_MAX = 10.0
_encoder = msgspec.msgpack.Encoder()

_kept = ReadAhead()
"""What this process has read for attempts to come."""


@dataclass(frozen=True)
class StandingTask:
    """The function of a Spark task that stays.

    Attributes:
        address: Where the driver listens.
        secret: What it takes to be let in.
        host: The host of the post.
        number: Which of that host's posts it is.
        generation: How often the post was manned before.
    """

    address: Address
    secret: bytes
    host: str
    number: int
    generation: int

    def __repr__(self) -> str:
        """Without the secret: Spark writes its tasks into logs and plans."""
        return f"StandingTask({self.host!r}, {self.number}, generation={self.generation})"

    @property
    def __name__(self) -> str:
        """How Spark's plans call it."""
        return "standing task"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - as Spark calls it
        """Work until the driver lets go; no rows."""
        wire = Wire(_connected(self.address))
        try:
            self._work(wire)
        finally:
            wire.close()
        yield from ()

    def _work(self, wire: Wire) -> None:
        context = TaskContext.get()
        assert context is not None, "called in a task"
        trial = context.attemptNumber()
        hello = Hello(self.host, self.number, self.generation, trial, os.getpid())
        prove(wire, self.secret, msgspec.msgpack.encode(hello))
        decoder = msgspec.msgpack.Decoder(Request)
        while True:
            try:
                message = wire.receive()
            except (EOFError, ConnectionError):
                return
            request = decoder.decode(message)
            with watched(Task("task", self.number), _teller(wire, request.number)):
                reply = answer(request)
            wire.send(_encoder.encode(reply))


def _teller(wire: Wire, number: int) -> Callable[[Beat], None]:
    """What sends the driver what the task is at, before it answers a request."""
    return lambda beat: wire.send(_encoder.encode(Reply(number, None, beat=beat)))


def answer(request: Request) -> Reply:
    """Do what is asked for, one part after the other."""
    if request.program is None and not is_loaded(request.digest):
        return Reply(request.number, None, unknown=True)
    try:
        program = Shipped(request.digest, request.program or b"").load()
        if request.work == Work.WARM:
            told = msgspec.msgpack.decode(request.spec, type=Warming)
            for part in request.parts:
                present().part(ACTOR, part.number)
                warm_up(program, part.number, told.commit, told.timeline, told.share)
            return Reply(request.number, None)
        spec: JobSpec = pickle.loads(request.spec)  # noqa: S301 - the driver proved itself
    except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
        return Reply(request.number, None, failure=described(error))
    return Reply(request.number, attempt_of(spec), _results(program, spec, request))


def _results(program: Program, spec: JobSpec, request: Request) -> list[Result]:
    """What came of the parts of an attempt, or of one that may come."""
    numbers = [part.number for part in request.parts]
    try:
        match request.work:
            case Work.PACK:
                kept = _kept.take(program, spec)
                return [_packed(program, spec, index, kept) for index in numbers]
            case Work.PACK_AHEAD:
                shares = {}
                for number in numbers:
                    present().part(READER, number)
                    shares[number] = share_ahead(program, spec, number, parks=True)
                _kept.keep(program, spec, shares)
                return [Result(number) for number in numbers]
            case Work.DIRECT_AHEAD:
                present().part(READER, numbers[0])
                _kept.keep(program, spec, {0: alone_ahead(program, spec, numbers)})
                return [Result(number) for number in numbers]
            case Work.DIRECT:
                present().part(ACTOR, numbers[0])
                alone, ahead = _alone(program, spec, tuple(numbers))
            case _:
                alone, ahead = {}, False
    except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
        failure = described(error)
        return [Result(number, failure=failure) for number in numbers]
    return [_done(program, spec, part, alone, ahead=ahead) for part in request.parts]


def _alone(
    program: Program, spec: JobSpec, units: tuple[int, ...]
) -> tuple[dict[int, list[Blob]], bool]:
    """The rows of each unit, and whether they were read ahead."""
    kept = _kept.take(program, spec, units).get(0)
    if kept is None:
        return packed_alone(program, spec, units), False
    blobs: dict[int, list[Blob]] = {unit: [] for unit in units}
    for unit, tag, rows in kept.parcels(spec):
        blobs[unit].append((tag, 0, rows))
    return blobs, True


def _done(
    program: Program, spec: JobSpec, part: Part, alone: dict[int, list[Blob]], *, ahead: bool
) -> Result:
    try:
        return Result(part.number, manifest=_acted(program, spec, part, alone), ahead=ahead)
    except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
        return Result(part.number, failure=described(error))


def _packed(program: Program, spec: JobSpec, index: int, kept: Shares) -> Result:
    present().part(READER, index)
    try:
        if index in kept:
            parcels = kept[index].parcels(spec)
            blobs = [(unit, wrap(tag, index, rows)) for unit, tag, rows in parcels]
            return Result(index, blobs, ahead=True)
        blobs = [
            (unit, wrapped(program, spec, (tag, index), rows))
            for unit, tag, rows in fed(program, spec, [index], index).parcels()
        ]
        return Result(index, blobs)
    except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
        return Result(index, failure=described(error))


def _acted(program: Program, spec: JobSpec, part: Part, alone: dict[int, list[Blob]]) -> Manifest:
    unit = part.number
    blobs = alone.get(unit)
    if blobs is None:
        blobs = [unwrap(pa.py_buffer(blob)) for blob in part.blobs]
        failure = failure_in(blobs)
        if failure is not None:
            return Manifest("", unit, failure=failure)
    return run_actor(program, spec, unit, blobs)


def _connected(address: Address) -> socket.socket:
    if isinstance(address, str):
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(address)
        return connected
    return socket.create_connection(address, _CONNECT_SECONDS_MAX)
