"""The type ``httpclient``: see the class."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from atoll.outside.urls import url_misfit
from atoll.runtime.actors.interface import ActorType, Effect, Event, Given, Result, State
from atoll.runtime.events import FieldName, compact
from atoll.runtime.problems import Problem, pointer

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]{0,8192}\Z")
_OURS = {
    *("connection", "content-length", "expect", "host", "idempotency-key", "keep-alive"),
    *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
}
"""Headers that are the sender's own, and decide where a request goes or where it ends."""


class HttpClientParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of an httpclient.

    Args:
        mode: ``static``: always ``url``; ``dynamic``: the URL in ``field`` of the event.
        response: ``emit``: emits what was answered; ``none``: emits nothing.
        method: The request's method.
        url: Where to, in the mode ``static``: http or https, without a password.
        field: The field with the URL, in the mode ``dynamic``.
        headers: Further headers.
    """

    mode: Literal["static", "dynamic"]
    response: Literal["emit", "none"]
    method: Literal["POST", "GET", "PUT", "DELETE"]
    url: Annotated[str, msgspec.Meta(max_length=2_048)] | None = None
    field: FieldName | None = None
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = {}


class HttpClient(ActorType[HttpClientParams]):
    """Makes a request of every event, after its microbatch has committed.

    `POST` and `PUT` send the event as JSON. With ``response`` `emit` an answer is emitted as
    `{"status": "200 OK", "headers": {...}, "body": ...}`; a body of the type `application/json` is
    parsed, any other a text. An effect of the kind ``http``, with ``method``, ``url``, ``headers``
    and ``body`` (a text or null). Which addresses may be asked is the
    [operator's choice](../concepts/runtimes.md#addresses-outside).
    """

    name = "httpclient"
    params = HttpClientParams
    effect = "http"
    example: ClassVar[dict[str, Any]] = {
        "mode": "static",
        "response": "emit",
        "method": "POST",
        "url": "https://example.com/orders",
        "headers": {"Authorization": "token"},
    }

    def check(self, params: HttpClientParams) -> Iterator[Problem]:
        """The URL, or the field with it, is there and can be; headers are headers."""
        needed, other = ("url", "field") if params.mode == "static" else ("field", "url")
        if getattr(params, needed) is None:
            what = f"{needed!r} is missing in the mode {params.mode}"
            yield Problem("invalid-actor", "", what, f"give {needed!r}")
        if getattr(params, other) is not None:
            what = f"{other!r} has no use in the mode {params.mode}"
            yield Problem("invalid-actor", pointer(other), what, "leave it out")
        if params.url is not None and (why := url_misfit(params.url)):
            hint = "give an http or https URL of another host"
            yield Problem("invalid-actor", "/url", why, hint)
        for name, value in params.headers.items():
            yield from _header_misfits(name, value)

    def trigger(self, params: HttpClientParams, state: State, event: Event, given: Given) -> Result:
        """A request."""
        url = params.url if params.field is None else event.get(params.field)
        if not isinstance(url, str):
            return Result(state, failure=f"field {params.field!r} is missing or no text")
        why = url_misfit(url)
        if why:
            return Result(state, failure=why)
        sends = params.method in {"POST", "PUT"}
        request = {
            "method": params.method,
            "url": url,
            "headers": _headers(params, sends=sends),
            "body": compact(event) if sends else None,
        }
        return Result(state, (), (Effect("http", request, given.key),))

    def answered(
        self, params: HttpClientParams, effect: Effect, outcome: dict[str, Any]
    ) -> tuple[Event, ...]:
        """What was answered: ``status`` (a number), ``reason``, ``headers``, ``body`` (a text)."""
        if params.response == "none" or "status" not in outcome:
            return ()
        status = f"{outcome['status']} {outcome.get('reason') or ''}".strip()
        headers = outcome.get("headers") or {}
        body = _parsed(outcome.get("body"), headers)
        return ({"status": status, "headers": headers, "body": body},)


def _headers(params: HttpClientParams, *, sends: bool) -> dict[str, str]:
    named = any(name.lower() == "content-type" for name in params.headers)
    usual = {"Content-Type": "application/json"} if sends and not named else {}
    return {**usual, **params.headers}


def _header_misfits(name: str, value: str) -> Iterator[Problem]:
    path = "/headers" + pointer(name)
    if not _HEADER.match(name):
        hint = "use letters, digits and -"
        yield Problem("invalid-actor", path, "it is no name of a header", hint)
    elif name.lower() in _OURS:
        what = "the header is set by the sender itself"
        yield Problem("invalid-actor", path, what, "leave it out")
    if not _HEADER_VALUE.match(value):
        hint = "use printable ASCII on one line"
        yield Problem("invalid-actor", path, "it is no value of a header", hint)


def _parsed(body: Any, headers: dict[str, Any]) -> Any:
    kinds = [str(value) for name, value in headers.items() if name.lower() == "content-type"]
    if not isinstance(body, str) or not any(
        kind.split(";")[0].strip().lower() == "application/json" for kind in kinds
    ):
        return body
    try:
        return json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return body


def _refuse(name: str) -> Any:
    raise ValueError(name)
