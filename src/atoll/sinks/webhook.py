"""Rows as JSON to somebody's HTTP service: at least once, with a key that tells repetitions.

An HTTP service holds no number of ours in the transaction of what it does, so a request whose
answer was lost is sent again. Every request has an ``Idempotency-Key`` that follows from what is
in it: this sink, the parcel, and the place of its first row there. The same rows come under the
same key, whoever sends them; a receiver that remembers keys has each row once.

Where a request may go is decided as for runtimes (:mod:`atoll.outside`): the host of the URL, and
only while its address is a public one, unless it is named as a local target.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from atoll.errors import SinkError
from atoll.outside.asking import Transient, ask_http
from atoll.outside.urls import UrlRules, url_misfit
from atoll.sinks.interface import Guarantee, Opening, Sink, SinkParcel, SinkRows, SinkWriter
from atoll.sinks.json_values import plain

_OWN_HEADERS = {"content-type", "idempotency-key", "atoll-signature", "host", "content-length"}
_ROWS_MAX = 100_000
_OK = range(200, 300)


@dataclass(frozen=True)
class Webhook(Sink):
    """Posts rows as JSON, at least once.

    Args:
        url: Where to, ``https://hooks.example.com/orders``. No user or password can be in it.
        headers: Sent with each request; never shown.
        secret: With it each request has ``Atoll-Signature``: ``sha256=`` and the HMAC-SHA-256 of
            key, newline and body, in hex. Never shown.
        rows_per_request: How many rows one request has at most; fixed, as keys depend on it.
        hosts: Other hosts that it may redirect to.
        local: Targets on this machine or its network that may be asked although their addresses
            are not public, as ``host:port``.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret: str | None = field(default=None, repr=False)
    rows_per_request: int = 500
    hosts: tuple[str, ...] = ()
    local: tuple[str, ...] = ()

    kind: ClassVar[str] = "webhook"
    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    def __post_init__(self) -> None:
        """Refuse what could never be sent."""
        wrong = url_misfit(self.url)
        if wrong is not None:
            raise SinkError(f"a webhook cannot be sent there: {wrong}", hint="give another URL")
        if not 1 <= self.rows_per_request <= _ROWS_MAX:
            raise SinkError(
                f"a request cannot have {self.rows_per_request} rows",
                hint=f"choose 1 to {_ROWS_MAX}",
            )
        for name, value in self.headers.items():
            if name.lower() in _OWN_HEADERS or not _is_header(name, value):
                raise SinkError(
                    f"header {name!r} cannot be given",
                    hint="leave it out: it is a webhook's own, or holds what a header cannot",
                )

    @property
    def target(self) -> str:
        """The URL without its query, which may hold a secret."""
        return self.url.partition("?")[0]

    @property
    def signature(self) -> Mapping[str, str]:
        """How rows are divided among keys."""
        return {"rows_per_request": str(self.rows_per_request)}

    @property
    def rules(self) -> UrlRules:
        """Where requests may go."""
        parts = urlsplit(self.url)
        ports = frozenset() if parts.port is None else frozenset({parts.port})
        hosts = frozenset({(parts.hostname or "").rstrip("."), *self.hosts})
        return UrlRules(hosts, ports, frozenset(self.local))

    def check(self, rows: SinkRows) -> None:
        """Any columns can be JSON; two of one name cannot."""
        if len(set(rows.schema.names)) < len(rows.schema.names):
            raise SinkError("two columns have one name", hint="rename one with select(...)")

    def open(self, opening: Opening) -> WebhookWriter:
        """Nothing is asked."""
        return WebhookWriter(self, opening)


class WebhookWriter(SinkWriter):
    """Sends requests."""

    def __init__(self, sink: Webhook, opening: Opening) -> None:
        """Nothing is sent."""
        self._sink = sink
        self._opening = opening

    def last_written(self) -> None:
        """Nobody there knows."""
        return

    def write(self, parcel: SinkParcel) -> None:
        """One request after the other; the first one that does not go well ends it."""
        for first, rows in _parts(parcel, self._sink.rows_per_request):
            self._send(parcel, first, rows)

    def _send(self, parcel: SinkParcel, first: int, rows: list[dict[str, Any]]) -> None:
        sink = self._sink
        key = f"{self._opening.identity}/{parcel.number}/{first}"
        content = {
            "sink": self._opening.identity,
            "number": parcel.number,
            "microbatch": parcel.microbatch,
            "timeline": parcel.timeline,
            "first": first,
            "records": parcel.records,
            "keys": list(self._opening.rows.keys),
            "rows": rows,
        }
        body = json.dumps(content, ensure_ascii=False, allow_nan=False)
        headers = {**sink.headers, "Content-Type": "application/json", "Idempotency-Key": key}
        if sink.secret is not None:
            signed = hmac.new(sink.secret.encode(), f"{key}\n{body}".encode(), hashlib.sha256)
            headers["Atoll-Signature"] = f"sha256={signed.hexdigest()}"
        try:
            answer = ask_http("POST", sink.url, headers, body, sink.rules)
        except Transient as error:
            raise self._refused(str(error)) from error
        if "error" in answer:
            raise self._refused(answer["error"])
        if answer["status"] not in _OK:
            raise self._refused(f"{answer['status']} {answer['reason']}")

    def _refused(self, why: str) -> SinkError:
        return SinkError(
            f"{self._sink.target} does not take rows: {why}",
            hint="let it answer 2xx; for a service on this machine or its network declare "
            "local=('host:port',); what waits is sent again by itself",
        )


def _parts(parcel: SinkParcel, size: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows as JSON has them, so many at a time, whatever batches they came in."""
    first, waiting = 0, list[dict[str, Any]]()
    for batch in parcel.batches():
        for row in batch.to_pylist():
            waiting.append({each.name: plain(row[each.name], each.type) for each in parcel.schema})
            if len(waiting) == size:
                yield first, waiting
                first, waiting = first + size, []
    if waiting:
        yield first, waiting


def _is_header(name: str, value: str) -> bool:
    """Whether they can be sent: no line can end in them."""
    text = name + value
    return bool(name) and text.isascii() and text.isprintable() and ":" not in name
