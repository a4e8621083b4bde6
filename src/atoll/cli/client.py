"""The service as the commands see it: paths in, plain data out, problems as errors.

A problem that the service answers with becomes the error that it was there, with its hint and
context, so that a command fails with the same words wherever the mistake was found.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from atoll import errors
from atoll.cli.credentials import token_headers
from atoll.errors import AtollError, StoppedError, UsageError

if TYPE_CHECKING:
    import httpx
    import pyarrow as pa


_CONNECT_SECONDS_MAX = 5.0
_ANSWER_SECONDS_MAX = 600.0
_RETRY_SECONDS = 0.2


class ServiceUnreachableError(AtollError):
    """Nothing answers at the service's address, or it went away in the middle."""

    code = "E-UNREACHABLE"


class ServiceError(AtollError):
    """What answers is no Atoll, or it failed in a way that it has no words for."""

    code = "E-SERVICE"


class Client:
    """One connection to one service.

    Args:
        url: Where it listens: ``http://127.0.0.1:7410``.

    Raises:
        UsageError: When that is no address, or the token must not be sent there.
    """

    def __init__(self, url: str) -> None:
        """Connects when it is first used."""
        import httpx

        self.url = url.rstrip("/")
        timeout = httpx.Timeout(_ANSWER_SECONDS_MAX, connect=_CONNECT_SECONDS_MAX, write=None)
        # Proxies of the environment are for the world outside, not for a service on this host.
        self._http = httpx.Client(
            base_url=_address(url), timeout=timeout, trust_env=False, headers=token_headers(url)
        )

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
        self._http.close()

    def get(self, *parts: str) -> Any:
        """The data at ``/v1/part/part/...``."""
        return self._data("GET", parts, {})

    def post(self, *parts: str, data: Any = None, params: Mapping[str, float] | None = None) -> Any:
        """Write plain data to ``/v1/part/part/...``; the data that it answers with."""
        arguments = {"json": {} if data is None else data, "params": params or {}}
        return self._data("POST", parts, arguments)

    def api(self, method: str, *parts: str, data: Any = None, body: bytes | None = None) -> Any:
        """Ask for ``/api/part/part/...``; the data that it answers with.

        Args:
            method: The verb.
            *parts: The address.
            data: Plain data to send.
            body: Or JSON as it is in a file; one value per line where it has several.
        """
        arguments: dict[str, Any] = {} if data is None else {"json": data}
        if body is not None:
            arguments = {"content": body, "headers": {"content-type": "application/json"}}
        return self._data(method, parts, arguments, "api")

    def lines(self, *parts: str, body: bytes) -> Any:
        """Write a JSON value a line to ``/api/part/part/...``; the data that it answers with."""
        arguments = {"content": body, "headers": {"content-type": "application/x-ndjson"}}
        return self._data("POST", parts, arguments, "api")

    def append(  # what one request says
        self,
        module: str,
        depot: str,
        body: Callable[[], Iterable[bytes]],
        media_type: str,
        on_invalid: str,
        producer: Mapping[str, str] | None = None,
        retries: int = 0,
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
            retries: How often that may happen; 0 when the body can be read only once. One that
                meets the moment between two versions of the module is not stored, and is sent
                again as often.

        Raises:
            RecordsRefusedError: When a record was refused and nothing is kept.
        """
        parts = ("modules", module, "depots", depot, "records")
        for attempt in range(retries + 1):
            arguments = {
                "content": iter(body()),
                "params": {"on_invalid": on_invalid},
                "headers": {"content-type": media_type, **(producer or {})},
            }
            try:
                return self._data("POST", parts, arguments)
            except (ServiceUnreachableError, StoppedError) as error:
                stored_once = producer or isinstance(error, StoppedError)
                if not stored_once or attempt == retries:
                    raise
                time.sleep(_RETRY_SECONDS * 2**attempt)
        return None

    def events(self, *parts: str, params: Mapping[str, str]) -> Iterator[Any]:
        """The data of each event at ``/v1/part/part/...``, as they come, until its end.

        Raises:
            AtollError: What the service answers instead, or tells in an event.
            ServiceUnreachableError: When nothing answers, or the connection is lost.
        """
        hint = "start one, and go on from the last position received with --after"
        with self._streamed(parts, params, hint) as response:
            kind = ""
            for line in response.iter_lines():
                name, _, value = line.partition(": ")
                kind = value if name == "event" else kind
                if name == "data":
                    data = json.loads(value)
                    if kind == "problem":
                        raise error_of(data)
                    yield data

    @contextmanager
    def arrow(self, *parts: str, params: Mapping[str, str]) -> Iterator[pa.RecordBatchStreamReader]:
        """The Arrow stream at ``/v1/part/part/...``, read as it comes.

        Raises:
            AtollError: What the service answers instead.
            ServiceUnreachableError: When nothing answers, or the connection is lost.
        """
        import pyarrow as pa

        hint = "start one with: atoll run FILE.py:module; or name it with --url"
        with self._streamed(parts, params, hint) as response:
            yield pa.ipc.open_stream(io.BufferedReader(_Body(response.iter_bytes())))

    @contextmanager
    def _streamed(
        self, parts: tuple[str, ...], params: Mapping[str, str], hint: str
    ) -> Iterator[httpx.Response]:
        """A good answer, whose body is read as it comes; the hint is for a lost connection."""
        import httpx

        path = "/v1/" + "/".join(quote(part, safe="") for part in parts)
        try:
            with self._http.stream("GET", path, params=dict(params)) as response:
                if not response.is_success:
                    response.read()
                    _checked(response, self.url)
                yield response
        except httpx.TransportError as error:
            raise ServiceUnreachableError(
                f"no service answers: {error}", hint=hint, url=self.url
            ) from None

    def _data(
        self, method: str, parts: tuple[str, ...], arguments: dict[str, Any], below: str = "v1"
    ) -> Any:
        import httpx

        path = f"/{below}/" + "/".join(quote(part, safe="") for part in parts)
        try:
            response = self._http.request(method, path, **arguments)
        except httpx.TimeoutException:
            raise ServiceUnreachableError(
                "the service does not answer in time",
                hint="look into its log; atoll status shows whether it works",
                url=self.url,
            ) from None
        except httpx.TransportError as error:
            raise ServiceUnreachableError(
                f"no service answers: {error}",
                hint="start one with: atoll run FILE.py:module; or name it with --url",
                url=self.url,
            ) from None
        return _checked(response, self.url)


class _Body(io.RawIOBase):
    """The body of an answer as a file: a read returns what has come, and waits for something."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _address(url: str) -> httpx.URL:
    """The address in parts.

    Raises:
        UsageError: When it is none, or of another protocol.
    """
    import httpx

    try:
        address = httpx.URL(url)
        reason = "" if address.scheme in {"http", "https"} and address.host else "no http address"
    except httpx.InvalidURL as error:
        reason = str(error)
    if reason:
        raise UsageError(
            f"{url!r} is no address of a service: {reason}",
            hint="write it as http://127.0.0.1:7410",
            url=url,
        )
    return address


def _checked(response: httpx.Response, url: str) -> Any:
    """The answer's data, or the error that it tells of."""
    try:
        data = response.json()
    except ValueError:
        data = None
    if response.is_success and data is not None:
        return data
    if isinstance(data, dict) and "code" in data:
        raise error_of(data)
    raise ServiceError(
        f"what answers is no Atoll: HTTP {response.status_code}",
        hint="check the address with --url or ATOLL_URL",
        url=url,
    )


def error_of(problem: dict[str, Any]) -> AtollError:
    """The error that a problem was made from; one of the same code where the kind is not known."""
    code = str(problem["code"])
    kinds = {kind.code: kind for kind in map(errors.__dict__.get, errors.__all__) if kind}
    kind = kinds.get(code) or type("RemoteError", (AtollError,), {"code": code})
    context = problem.get("context")
    context = context if isinstance(context, dict) else {}
    reserved = {"message", "hint", "self"}
    context = {str(key): value for key, value in context.items() if key not in reserved}
    error: AtollError = kind(str(problem.get("detail", "")), hint=problem.get("hint"), **context)
    return error
