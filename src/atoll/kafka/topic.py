"""What is said of a topic that a depot reads: which one it is, and what its messages are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from atoll.errors import DeclarationError
from atoll.kafka.settings import Settings, checked_options
from atoll.secret import Secret

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.kafka.formats import Format

Beside = Literal["key", "timestamp", "headers", "partition", "offset"]
BESIDE: tuple[Beside, ...] = ("key", "timestamp", "headers", "partition", "offset")
"""What a message has beside its value."""

BESIDE_DDL: dict[str, tuple[str, ...]] = {
    "key": ("string", "binary"),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key string, value binary>>",),
    "partition": ("int",),
    "offset": ("long",),
}
"""What columns can hold it."""


@dataclass(frozen=True)
class Topic:
    """A topic; the fields are described at :class:`atoll.Kafka`."""

    brokers: str
    topic: str
    format: str | Format = "json"
    key: str | None = field(default=None, kw_only=True)
    timestamp: str | None = field(default=None, kw_only=True)
    headers: str | None = field(default=None, kw_only=True)
    partition: str | None = field(default=None, kw_only=True)
    offset: str | None = field(default=None, kw_only=True)
    tombstones: Literal["null", "skip", "malformed"] = field(default="null", kw_only=True)
    malformed: Literal["aside", "stop"] = field(default="aside", kw_only=True)
    overtaken: Literal["stop", "skip"] = field(default="stop", kw_only=True)
    options: Mapping[str, str | int | bool | Secret] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        """Check what needs no schema."""
        from atoll.kafka.formats import format_of

        checked_options(self.brokers, self.topic, self.options)
        format_of(self.format)
        choices = {
            "tombstones": ("null", "skip", "malformed"),
            "malformed": ("aside", "stop"),
            "overtaken": ("stop", "skip"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise DeclarationError(
                    f"{name} cannot be {getattr(self, name)!r}", hint=f"use {', '.join(allowed)}"
                )

    @property
    def text(self) -> str:
        """What hidden state of steps behind it goes by."""
        return f"kafka {self.topic}"

    @property
    def settings(self) -> Settings:
        """How clients connect."""
        return Settings(self.brokers, tuple(sorted(self.options.items())))

    @property
    def named(self) -> dict[str, str]:
        """The columns for what a message has beside its value: which, by column."""
        return {name: what for what in BESIDE if (name := getattr(self, what)) is not None}

    def of_value(self, schema: pa.Schema) -> pa.Schema:
        """The columns that come of a message's value."""
        import pyarrow as pa

        return pa.schema([each for each in schema if each.name not in self.named])
