"""From what Spark raises on the driver to the failure that a topology's status shows.

Spark passes on no more of an error in a Python worker than its text. Where a task has no other
way out than rows, its error therefore carries the whole failure in that text.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from py4j.protocol import Py4JNetworkError

from atoll.engine.attempt import described
from atoll.errors import AtollError, DataError, StorageError
from atoll.microbatch.outcome import ActorFailure, too_large
from atoll.steps.columns.guards import EXPRESSION_HINT

_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] ")
_STATE = " SQLSTATE: "
_DISK_FULL = "No space left on device"
_NO_ROOM = (
    "java.lang.OutOfMemoryError",
    "Cannot grow BufferHolder",
    "OutOfMemoryException",
    "OversizedAllocationException",
    "Cannot reserve additional contiguous bytes",
    "MemoryError",
    "Unable to acquire ",
    "offset overflow while concatenating",
    "overflowed binary array capacity",
)
"""What Spark, its Arrow and Python in its workers say when there is too much at once."""

_WORKER_LOST = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "Python worker failed to connect back",
    "Remote RPC client disassociated",
)

_OF_DATA = ("22", "23", "54", "P0001")
"""How the SQLSTATE begins of what Spark finds wrong with values, which every attempt repeats.

22 are the data exceptions of the standard (a cast, a division by zero, a number out of range, an
index outside an array), 23 what breaks a constraint (a map's key twice), 54 what grows beyond a
limit, and P0001 what ``assert_true`` and ``raise_error`` raise.
"""


class StepFailureError(Exception):
    """A failure on its way through Spark."""

    _MARK = re.compile(r"<atoll-failure ([A-Za-z0-9+/=]*)>")

    def __init__(self, failure: ActorFailure) -> None:
        packed = base64.b64encode(msgspec.msgpack.encode(failure)).decode("ascii")
        super().__init__(f"{failure.message} <atoll-failure {packed}>")

    @classmethod
    def found_in(cls, text: str) -> ActorFailure | None:
        """The failure in what Spark reports, or None when there is none."""
        found = cls._MARK.search(text)
        if found is None:
            return None
        return msgspec.msgpack.decode(base64.b64decode(found[1]), type=ActorFailure)


@contextlib.contextmanager
def telling(known: Path) -> Iterator[None]:
    """Let what is raised inside reach the driver whole, and run nothing again that raised.

    Spark starts a failed task again, up to its own limit. An error of Atoll's, which would come
    again, is left in a file of the attempt, and whoever is started after that fails alike without
    running the user's code.

    Args:
        known: That file.
    """
    with contextlib.suppress(OSError, msgspec.DecodeError):
        failure = msgspec.msgpack.decode(known.read_bytes(), type=ActorFailure)
        raise StepFailureError(failure)
    try:
        yield
    except Exception as error:
        failure = described(error)
        if isinstance(error, AtollError):
            with contextlib.suppress(OSError):  # then it is run again, as Spark would
                known.parent.mkdir(parents=True, exist_ok=True)
                known.write_bytes(msgspec.msgpack.encode(failure))
        raise StepFailureError(failure) from error


def job_failure(error: Exception) -> ActorFailure:
    """The failure of a job that Spark gave up."""
    text = str(error).strip()
    told = StepFailureError.found_in(text)
    if told is not None:
        return told
    if _DISK_FULL in text:
        return ActorFailure(
            StorageError.code,
            f"the Spark job failed: {_DISK_FULL}",
            "free some space; the attempt is tried again until there is enough",
            {},
            text,
        )
    if any(each in text for each in _NO_ROOM):
        return msgspec.structs.replace(too_large(_last_before_stack(_lines(text))), trace=text)
    if any(each in text for each in _WORKER_LOST):
        return ActorFailure(
            "E-WORKER-LOST",
            f"a worker of Spark's died: {_last_before_stack(_lines(text))}",
            "look at the machine's memory: with less at once a worker needs less, see "
            "depot.microbatch.max.bytes",
            {},
            text,
        )
    said, state = _said(error)
    lines = _lines(said)
    hint = None
    if lines and _CONDITION.match(lines[0]):  # an expression failed on a value
        gist, _, _ = lines[0].partition(_STATE)
        marks = [at for at, line in enumerate(lines[:-1]) if line.startswith("== SQL")]
        if marks:
            gist = f"{gist} (in {lines[marks[0] + 1]})"
        hint = EXPRESSION_HINT
    else:
        gist = _last_before_stack(lines) or type(error).__name__
    permanent = state.startswith(_OF_DATA)
    code = DataError.code if permanent else "E-SPARK"
    message = f"the Spark job failed: {gist}"
    return ActorFailure(code, message, hint, {}, text, permanent)


def value_problem(error: Exception) -> str | None:
    """What Spark says is wrong with a value; None when that is not what it raised."""
    text, state = _said(error)
    if not state.startswith(_OF_DATA):
        return None
    said, _, _ = text.strip().splitlines()[0].partition(_STATE)
    return said


def _said(error: Exception) -> tuple[str, str]:
    """What Spark says and its SQLSTATE, empty when it has none.

    Where a thread of Spark's own ran into it, the JVM hands out an error of that thread's, and
    Spark's is its cause.
    """
    state = getattr(error, "getSqlState", None)
    if state is not None:
        return str(error), state() or ""
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        with contextlib.suppress(Exception):  # it is no error of Spark's
            found = cause.getSqlState()
            if found:
                return str(cause.getMessage()), str(found)
        cause = cause.getCause()
    return str(error), ""


def is_broken(error: BaseException) -> bool:
    """Whether the connection to the JVM broke."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ConnectionError | EOFError | Py4JNetworkError):
            return True
        found = found.__cause__ or found.__context__
    return False


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _last_before_stack(lines: list[str]) -> str:
    """The last line before the JVM's stack: a worker's own error, or Spark's reason."""
    last = ""
    for line in lines:
        if line.startswith(("at ", "SQLSTATE")):
            break
        last = line
    return last
