"""The door: what every request must satisfy before any route sees it.

Listening on the loopback address keeps other machines out, but not the browser of the person at
this one: any web page may send requests to 127.0.0.1. Four checks keep those pages out, whether or
not callers must say who they are:

- the ``Host`` header must name this service (a page that rebinds its own name to 127.0.0.1 fails);
- an ``Origin`` header, which browsers send and other clients do not, must be the service's own;
- so must what a browser says of the page that asks (``Sec-Fetch-Site``): a page that reads through
  an image or a script sends no origin;
- a write must carry a content type that a page cannot send without asking first (and the asking,
  a CORS preflight, is never answered with a yes).

A body that is not streamed is limited, by its announced length and by counting what arrives.
Every answer carries a request id and headers that forbid sniffing, framing and caching.
"""

from __future__ import annotations

import json
import secrets
import traceback
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atoll.depot.receipt import TOKEN_CHARACTERS_MAX
from atoll.logs import get_logger
from atoll.server.problems import problem_of, problem_response, smaller
from atoll.server.settings import ServerSettings

_log = get_logger(__name__)

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
STREAMED = frozenset({NDJSON, ARROW_STREAM, CSV})
"""The content types whose bodies are read piece by piece, and so have no limit."""

_LENGTH_DIGITS_MAX = 18
"""More digits than any real length has; what is longer is cut, and is too large all the same."""

_ADDRESS_BYTES_MAX = TOKEN_CHARACTERS_MAX + (16 << 10)
"""An address may carry the token of a receipt."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})

_OWN_SITES = frozenset({"none", "same-origin"})
"""What a browser says of the service's own page, and of an address that somebody typed. Another
port of this machine is of the same *site*, and yet another's page."""

_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


def media_type(headers: Headers) -> str:
    """The content type without its parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = settings.hosts_allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, then pass it on with a counted body and a decorated answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope["atoll.request_id"] = request_id

        started = False

        async def decorated_send(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        problem = self._long_head(scope) or self._refusal(scope["method"], scope["path"], headers)
        if problem is not None:
            await problem_response(problem)(scope, receive, decorated_send)
            return
        receive = self._limited(scope, headers, receive)
        try:
            await self._app(scope, receive, decorated_send)
        except ClientDisconnect:
            _log.info("client-disconnected", path=scope["path"], request_id=request_id)
        except Exception:
            _log.error(
                "request-crashed",
                path=scope["path"],
                request_id=request_id,
                trace=traceback.format_exc(),
            )
            if started:
                raise  # the server closes the connection: half an answer must not look whole
            failed = problem_of(
                500,
                "E-INTERNAL",
                "the service failed on this request",
                "look into the log of the service for the request id",
                {"request_id": request_id},
            )
            await problem_response(failed)(scope, receive, decorated_send)

    def _limited(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """What a body that is not streamed may be."""
        if scope["method"] in _READING or media_type(headers) in STREAMED:
            return receive
        limits = self._settings
        receive = _limited(receive, limits.body_bytes_max, limits.body_timeout_seconds)
        if media_type(headers) == JSON and not _checks_itself(scope["path"]):
            receive = _unambiguous(receive)
        return receive

    def _long_head(self, scope: Scope) -> dict[str, Any] | None:
        """The problem with a request whose head is too long, or None."""
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        address = len(scope["query_string"]) + len(scope["path"])
        if size <= self._settings.header_bytes_max and address <= _ADDRESS_BYTES_MAX:
            return None
        limit = self._settings.header_bytes_max
        return problem_of(
            431, "E-TOO-LARGE", f"the head is longer than {limit} bytes", "send less in headers"
        )

    def _refusal(self, method: str, path: str, headers: Headers) -> dict[str, Any] | None:
        """The problem with this request, or None."""
        host = headers.get("host", "")
        if _host_name(host) not in self._hosts:
            return problem_of(
                403,
                "E-HOST",
                "the Host header names another service",
                "use the address that the service was started for, or start it with "
                "--allow-host NAME",
            )
        origin = headers.get("origin")
        if origin is not None and not _same_origin(origin, host):
            return problem_of(
                403, "E-ORIGIN", "the request comes from another site", "call from the same origin"
            )
        site = headers.get("sec-fetch-site", "none")
        if site not in _OWN_SITES and not _opens_page(method, path, headers):
            return problem_of(
                403, "E-ORIGIN", "the request comes from another site", "call from the same origin"
            )
        # no page can send a DELETE without asking first, and it needs no body
        if method in _READING or (method == "DELETE" and not _has_body(headers)):
            return None
        return self._write_refusal(path, headers)

    def _write_refusal(self, path: str, headers: Headers) -> dict[str, Any] | None:
        kind = media_type(headers)
        if kind != JSON and kind not in STREAMED:
            return problem_of(
                415,
                "E-MEDIA-TYPE",
                "a write needs a content type of JSON or of records",
                f"set Content-Type to {JSON}; appends also take {', '.join(sorted(STREAMED))}",
            )
        if headers.get("content-encoding", "identity").lower() != "identity":
            return problem_of(
                415, "E-MEDIA-TYPE", "compressed bodies are not read", "send it uncompressed"
            )
        if kind not in STREAMED and _announced_bytes(headers) > self._settings.body_bytes_max:
            return _too_large(self._settings.body_bytes_max, path)
        return None


def _opens_page(method: str, path: str, headers: Headers) -> bool:
    """Whether somebody follows a link to the service's own page, which shows nothing by itself."""
    return (
        method == "GET"
        and path == "/"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def _has_body(headers: Headers) -> bool:
    return _announced_bytes(headers) > 0 or "transfer-encoding" in headers


def _announced_bytes(headers: Headers) -> int:
    """The length that the sender announces; 0 for none, or for one that is no number."""
    length = headers.get("content-length", "")
    return int(length[:_LENGTH_DIGITS_MAX]) if length.isascii() and length.isdigit() else 0


def _too_large(limit: int, path: str) -> dict[str, Any]:
    return problem_of(
        413,
        "E-TOO-LARGE",
        f"the body is larger than {limit} bytes",
        smaller(path),
    )


def _limited(receive: Receive, limit: int, seconds: float) -> Receive:
    """Count what arrives, for bodies that announce no length or a false one, and how long it takes.

    Once it is there, what comes is only that the client goes away, and that may take any time.
    """
    received = 0
    deadline = anyio.current_time() + seconds
    complete = False

    async def counted() -> Message:
        nonlocal received, complete
        if complete:
            return await receive()
        try:
            with anyio.fail_after(max(0.0, deadline - anyio.current_time())):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {seconds:g} seconds") from None
        received += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if received > limit:
            raise HTTPException(413, f"the body is larger than {limit} bytes")
        return message

    return counted


def _checks_itself(path: str) -> bool:
    """Whether a route reads its body in its own way: records, and what runtimes take."""
    return path.endswith("/records") or path.startswith("/api/")


def _unambiguous(receive: Receive) -> Receive:
    """Refuse JSON in which a member stands twice: whoever looked at it may have seen the other."""
    parts: list[bytes] = []

    async def checked() -> Message:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False) and message["type"] == "http.request":
            _check_members(b"".join(parts))
        return message

    return checked


def _check_members(body: bytes) -> None:
    try:
        json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return  # the route says so


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counted = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counted.items() if count > 1)
        raise HTTPException(400, f"the member {twice[:100]!r} stands twice in the body")
    return found


def _host_name(host: str) -> str:
    """The name in a Host header: without the port, in lower case; empty when it is none."""
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        good = bracket and (not rest or (rest.startswith(":") and rest[1:].isdecimal()))
        return (name + bracket).lower() if good else ""
    name, colon, port = host.partition(":")
    if colon and not port.isdecimal():
        return ""
    return name.lower().removesuffix(".")


def _same_origin(origin: str, host: str) -> bool:
    """Whether an Origin header is this service itself, name and port."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower()
