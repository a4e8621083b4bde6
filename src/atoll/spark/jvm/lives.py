"""The lives of Spark in this process: when its JVM has died, and what must go before the next one.

PySpark keeps one gateway, one context and one session per process in class attributes, and knows
no way back when the JVM behind them is gone: every call ends in a refused connection. So what it
keeps is cleared here, what the dead JVM left behind is removed (its Python workers by their pids,
its scratch folder by its name), and whoever needs a session then starts one as for the first
time. Only a JVM that Atoll started is followed by another: of somebody else's session nobody here
knows how it was made.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atoll.errors import SparkLostError
from atoll.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


_log = get_logger("atoll.spark")

LIFE_VARIABLE = "ATOLL_SPARK_LIFE"
"""In the environment of a life's Python workers, so that they are known when it is over."""

_DEATHS_MAX = 5
_DEATHS_SECONDS = 300.0
"""So many deaths in so many seconds are more than chance; then nobody starts it any more."""

_DELAY_SECONDS = 0.5
_DELAY_SECONDS_MAX = 8.0
_EXIT_SECONDS = 2.0
"""A connection may break a moment before the system says that the process has ended."""


@dataclass(frozen=True)
class _Life:
    """A JVM that Atoll started."""

    token: str
    process: subprocess.Popen[bytes]
    folder: Path
    """Where it keeps what nobody needs after it."""


class Lives:
    """All lives of Spark in one process. Safe to share between threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while one is started or buried."""
        self.restarts = 0
        """How often Spark was started anew."""
        self._token = uuid.uuid4().hex
        self._lives: dict[int, _Life] = {}
        self._deaths: deque[float] = deque(maxlen=_DEATHS_MAX)
        self._anew = False

    @property
    def token(self) -> str:
        """What the Python workers of the next life carry in their environment."""
        return self._token

    def born(self, session: SparkSession) -> None:
        """Remember that Atoll started the JVM of this session."""
        context: Any = session.sparkContext
        context._accumulatorServer.handle_error = _in_silence  # noqa: SLF001 - prints a trace at each death
        process = context._gateway.proc  # noqa: SLF001 - no public way
        if process is None:
            return  # this process is the JVM's child, not the other way round
        self._lives[process.pid] = _Life(self._token, process, Path(context._temp_dir).parent)  # noqa: SLF001 - no public way
        if self._anew:
            self.restarts += 1
            self._anew = False
            _log.warning("Spark was started anew", restarts=self.restarts)

    def is_dead(self, session: SparkSession, *, broken: bool = False) -> bool:
        """Whether the JVM behind a session has ended, or the session's gateway was given up.

        Args:
            session: A session of this process.
            broken: Whether a connection to it has just broken, so that it may be ending.
        """
        context: Any = session.sparkContext
        if isinstance(context._jsc, _Lost | None):  # noqa: SLF001 - no public way
            return True
        process = context._gateway.proc  # noqa: SLF001 - no public way
        if process is None:
            return False
        if broken:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_EXIT_SECONDS)
        return process.poll() is not None

    def bury(self, session: SparkSession) -> None:
        """Clear away a session whose JVM has died, so that another one can be started.

        Raises:
            SparkLostError: When the session is not Atoll's own, or Spark died too often lately.
        """
        with self.lock:
            context: Any = session.sparkContext
            gateway = context._gateway  # noqa: SLF001 - no public way
            life = self._lives.get(gateway.proc.pid) if gateway.proc is not None else None
            if life is None or life.process is not gateway.proc:
                raise not_ours()
            if not isinstance(context._jsc, _Lost):  # noqa: SLF001 - nobody has done it yet
                _forget(context)
                _end_workers(life.token)
                shutil.rmtree(life.folder, ignore_errors=True)
                self._deaths.append(time.monotonic())
                self._token = uuid.uuid4().hex
                self._anew = True
                code = life.process.returncode
                _log.error("Spark has died", pid=life.process.pid, exit_code=code)
            self._hold_back()

    def _hold_back(self) -> None:
        """Wait longer with each death, and give up after too many."""
        since = time.monotonic() - _DEATHS_SECONDS
        recent = sum(at > since for at in self._deaths)
        if recent >= _DEATHS_MAX:
            raise SparkLostError(
                f"the JVM of Spark has died {recent} times in {_DEATHS_SECONDS:g} s",
                hint="look at the machine's memory and at hs_err files, mend what kills it, and "
                "resume the topologies after a while, or start the process anew",
            )
        if self._anew and recent > 1:
            time.sleep(min(_DELAY_SECONDS * 2 ** (recent - 2), _DELAY_SECONDS_MAX))


def not_ours() -> SparkLostError:
    """The error when a session has died that Atoll did not start itself."""
    return SparkLostError(
        "the JVM of the Spark session that this process was given has died",
        hint="make another session, or let Atoll make its own, and start the process anew: "
        "nothing is lost",
    )


lives = Lives()
"""PySpark's class attributes are one per process, and so is this."""


class _Lost:
    """Stands where a JVM was, for whoever still holds a session, context or frame of it."""

    def call(self, *_: Any, **__: Any) -> Any:
        """What any call to the JVM comes to."""
        raise SparkLostError(
            "the JVM that this DataFrame or session lived in has died",
            hint="take another one: app.dataframe(...), or the frame that a transform is given",
        )

    def __getattr__(self, name: str) -> Any:
        """The same for whoever looks into it."""
        return self.call(name)


def _in_silence(*_: object) -> None:
    """Nothing to say: whoever was served here has died, and that is told elsewhere."""


def _forget(context: Any) -> None:
    """Take away what PySpark keeps of a JVM, and close the sockets to it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, SQLContext

    gateway = context._gateway  # noqa: SLF001 - no public way
    context._jsc = _Lost()  # noqa: SLF001 - no public way
    server, context._accumulatorServer = context._accumulatorServer, None  # noqa: SLF001
    with contextlib.suppress(Exception):
        server.shutdown()
        server.server_close()
    with contextlib.suppress(Exception):
        gateway.shutdown_callback_server(raise_exception=False)
    with contextlib.suppress(Exception):
        gateway.close(keep_callback_server=True)
    gateway._gateway_client.send_command = _Lost().call  # noqa: SLF001 - no public way
    with contextlib.suppress(Exception):
        gateway.proc.stdin.close()
    if SparkContext._gateway is gateway:  # noqa: SLF001 - no public way
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - no public way
        SparkContext._active_spark_context = None  # noqa: SLF001 - no public way
        SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001 - no public way
        SQLContext._instantiatedContext = None  # noqa: SLF001 - no public way
    scratch = str(Path(context._temp_dir).parent)  # noqa: SLF001 - no public way
    sys.path[:] = [each for each in sys.path if not each.startswith(scratch)]
    _forget_functions()


def _forget_functions() -> None:
    """Let user-defined functions make themselves known to the next JVM: each keeps its Java side.

    They are made where a module is imported, so nobody could make them anew.
    """
    from pyspark.sql.udf import UserDefinedFunction

    for each in gc.get_objects():
        if type(each) is UserDefinedFunction:
            each._judf_placeholder = None  # noqa: SLF001 - no public way


def _end_workers(token: str) -> None:
    """End the Python workers of a life; left alone, they end when they look up from work."""
    for pid in _carrying(token):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _carrying(token: str) -> Iterator[int]:
    """The processes with the token in their environment; none where there is no ``/proc``."""
    wanted = f"{LIFE_VARIABLE}={token}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
