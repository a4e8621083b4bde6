"""What the service may be told: plain data, checked when it is made."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from atoll.errors import UsageError

__all__ = ["LOOPBACK_HOSTS", "ServerSettings"]

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""The names under which a browser or a client on this machine reaches the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Limits and names of the service.

    Attributes:
        hosts: Further names that a request's ``Host`` header may carry, besides the loopback ones.
        proxies: The networks of proxies: where there are any, nobody else on other machines may
            connect, and what they say of a client's address is believed.
        body_bytes_max: The largest body of a request that is not streamed.
        line_bytes_max: The longest line of a streamed NDJSON or CSV body.
        message_bytes_max: The largest single message of a streamed Arrow body.
        header_bytes_max: The longest head of a request.
        header_timeout_seconds: How long the head of a request may take, from the connection on.
        body_timeout_seconds: How long a body that is not streamed may take.
        connection_count_max: How many connections are open at once, as far as a quarter of the
            files that the process may open allows; then one that waits is closed for a new one.
        chunk_timeout_seconds: How long a streamed body may stay silent.
        stream_count_max: How many streamed bodies are read at once; more of them wait.
        subscriber_count_max: How many subscriptions are open at once; more of them are refused.
        heartbeat_seconds: How long a subscription is silent before it shows that it is there.
        event_timeout_seconds: How long a subscriber may take to receive one event.
        select_entries_max: How many entries of stores one select may read.
        select_bytes_max: How many bytes of them.
        select_seconds: How long one select, or one look of a subscription, may take.
        refusals_max: How many refused records an answer lists; it always counts all.
    """

    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    body_bytes_max: int = 1 << 20
    line_bytes_max: int = 16 << 20
    message_bytes_max: int = 256 << 20
    header_bytes_max: int = 16 << 10
    header_timeout_seconds: float = 10.0
    body_timeout_seconds: float = 30.0
    connection_count_max: int = 1_000
    chunk_timeout_seconds: float = 30.0
    stream_count_max: int = 8
    subscriber_count_max: int = 64
    heartbeat_seconds: float = 15.0
    event_timeout_seconds: float = 30.0
    select_entries_max: int = 2_000_000
    select_bytes_max: int = 128 << 20
    select_seconds: float = 30.0
    refusals_max: int = 20

    def __post_init__(self) -> None:
        """Refuse limits that would refuse everything."""
        for field in dataclasses.fields(self):
            low = 1 if field.name.endswith("_max") and field.name != "refusals_max" else 0
            value = getattr(self, field.name)
            if field.name.endswith("_seconds") and value <= 0:
                raise UsageError(f"{field.name} must be positive", hint="leave it out")
            if field.name.endswith("_max") and value < low:
                raise UsageError(
                    f"{field.name} must be positive", hint="leave it out for the default"
                )

    @property
    def hosts_allowed(self) -> frozenset[str]:
        """Every host name that a request may carry, in lower case."""
        return frozenset(host.lower() for host in (*LOOPBACK_HOSTS, *self.hosts))
