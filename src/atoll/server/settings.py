"""What the service may be told: plain data, checked when it is made."""

from __future__ import annotations

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
        body_bytes_max: The largest body of a request that is not streamed.
        line_bytes_max: The longest line of a streamed NDJSON or CSV body.
        message_bytes_max: The largest single message of a streamed Arrow body.
        chunk_timeout_seconds: How long a streamed body may stay silent.
        stream_count_max: How many streamed bodies are read at once; more of them wait.
        refusals_max: How many refused records an answer lists; it always counts all.
    """

    hosts: tuple[str, ...] = ()
    body_bytes_max: int = 1 << 20
    line_bytes_max: int = 16 << 20
    message_bytes_max: int = 256 << 20
    chunk_timeout_seconds: float = 30.0
    stream_count_max: int = 8
    refusals_max: int = 20

    def __post_init__(self) -> None:
        """Refuse limits that would refuse everything."""
        for name in ("body_bytes_max", "line_bytes_max", "message_bytes_max", "stream_count_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be positive", hint="leave it out for the default")
        if self.chunk_timeout_seconds <= 0:
            raise UsageError("chunk_timeout_seconds must be positive", hint="leave it out")

    @property
    def hosts_allowed(self) -> frozenset[str]:
        """Every host name that a request may carry, in lower case."""
        return frozenset(host.lower() for host in (*LOOPBACK_HOSTS, *self.hosts))
