"""The service as the commands see it: paths in, plain data out, problems as errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from atoll.cli.asked import token_for
from atoll.client.asking.calls import Again, Call
from atoll.client.asking.module import same
from atoll.client.errors import ServiceUnreachableError, error_of
from atoll.client.wire import Address, Wire

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Client", "error_of"]


class Client:
    """One connection to one service.

    Args:
        url: Where it listens: ``http://127.0.0.1:7410``.

    Raises:
        UsageError: When that is no address, or the token must not be sent there.
    """

    def __init__(self, url: str) -> None:
        """Connects when it is first used; who waits at a terminal is told at once."""
        token = token_for(url)
        self._wire = Wire(Address(url, token, retry_seconds=0.0))
        self._insistent = Wire(Address(url, token, retry_seconds=_INSIST_SECONDS))

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._wire.close()
        self._insistent.close()

    def get(self, *parts: str, params: Mapping[str, Any] | None = None) -> Any:
        """The data at ``/v1/part/part/...``."""
        told = {name: str(value) for name, value in (params or {}).items() if value is not None}
        return self._wire.run(Call("GET", ("v1", *parts), same, params=told))

    def post(self, *parts: str, data: Any = None, params: Mapping[str, float] | None = None) -> Any:
        """Write plain data to ``/v1/part/part/...``; the data that it answers with."""
        told = {name: str(value) for name, value in (params or {}).items()}
        data = {} if data is None else data
        return self._wire.run(Call("POST", ("v1", *parts), same, params=told, json=data))

    def api(self, method: str, *parts: str, data: Any = None, body: bytes | None = None) -> Any:
        """Ask for ``/api/part/part/...``; the data that it answers with.

        Args:
            method: The verb.
            *parts: The address.
            data: Plain data to send.
            body: Or JSON as it is in a file; one value per line where it has several.
        """
        if body is not None:
            return self._body(method, parts, body, "application/json")
        return self._wire.run(Call(method, ("api", *parts), same, json=data))

    def lines(self, *parts: str, body: bytes) -> Any:
        """Write a JSON value a line to ``/api/part/part/...``; the data that it answers with."""
        return self._body("POST", parts, body, "application/x-ndjson")

    def append(  # what one request says
        self,
        module: str,
        depot: str,
        body: Callable[[], Iterable[bytes]],
        media_type: str,
        on_invalid: str,
        producer: Mapping[str, str] | None = None,
        *,
        again: bool = False,
    ) -> Any:
        """Send records piece by piece; what was kept and what was refused.

        Args:
            module: The module's name.
            depot: The depot's name.
            body: Begins reading the records; called again for each time that they are sent.
            media_type: What the body is.
            on_invalid: ``none`` or ``keep``.
            producer: The headers that name a producer. An append with one whose answer is lost
                is sent again, and stored once.
            again: Whether the body can be read more than once. An append that meets the moment
                between two versions of the module is not stored, and is sent again.

        Raises:
            RecordsRefusedError: When a record was refused and nothing is kept.
        """
        call = Call(
            "POST",
            ("v1", "modules", module, "depots", depot, "records"),
            same,
            params={"on_invalid": on_invalid},
            content=lambda: iter(body()),
            headers={"content-type": media_type, **(producer or {})},
            again=Again.ALWAYS if producer else Again.STOPPED,
        )
        return (self._insistent if again else self._wire).run(call)

    def events(self, *parts: str, params: Mapping[str, str]) -> Iterator[Any]:
        """The data of each event at ``/v1/part/part/...``, as they come, until its end.

        Raises:
            AtollError: What the service answers instead, or tells in an event.
            ServiceUnreachableError: When nothing answers, or the connection is lost.
        """
        call = Call("GET", ("v1", *parts), same, params=params)
        try:
            with self._wire.streamed(call) as response:
                kind = ""
                for line in response.iter_lines():
                    name, _, value = line.partition(": ")
                    kind = value if name == "event" else kind
                    if name == "data":
                        data = json.loads(value)
                        if kind == "problem":
                            raise error_of(data)
                        yield data
        except ServiceUnreachableError as error:
            error.hint = "start one, and go on from the last position received with --after"
            raise

    def arrow(
        self, *parts: str, params: Mapping[str, str]
    ) -> AbstractContextManager[pa.RecordBatchStreamReader]:
        """The Arrow stream at ``/v1/part/part/...``, read as it comes.

        Raises:
            AtollError: What the service answers instead.
            ServiceUnreachableError: When nothing answers, or the connection is lost.
        """
        return self._wire.arrow(Call("GET", ("v1", *parts), same, params=params))

    def _body(self, method: str, parts: tuple[str, ...], body: bytes, kind: str) -> Any:
        headers = {"content-type": kind}
        call = Call(method, ("api", *parts), same, content=lambda: [body], headers=headers)
        return self._wire.run(call)


_INSIST_SECONDS = 5.0
"""So long an append is sent again that may be."""
