"""What the service needs of subscriptions and queries, as protocols; see :mod:`.ports`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

__all__ = ["QueriesPort", "SubscriptionPort", "ValueChangePort"]


class ValueChangePort(Protocol):
    """One thing that a subscriber is told."""

    @property
    def kind(self) -> str:
        """``snapshot``, ``change`` or ``resync``."""
        ...

    @property
    def last(self) -> bool:
        """Whether no further page of it follows."""
        ...

    @property
    def position(self) -> str:
        """Where to go on after it."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        ...


class SubscriptionPort(Protocol):
    """Each commit's changes of one value."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        ...

    @property
    def position(self) -> str | None:
        """Up to where everything is told."""
        ...

    def next(self, timeout_seconds: float | None = None) -> ValueChangePort | None:
        """The next change; None when none came in time, or it is closed."""
        ...

    def close(self) -> None:
        """End it, from any thread."""
        ...


class QueriesPort(Protocol):
    """A module's queries."""

    def names(self) -> Sequence[str]:
        """Their names."""
        ...

    def describe(self, name: str) -> dict[str, Any]:
        """What a query takes and returns, JSON-able."""
        ...

    def ask(
        self,
        name: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float = ...,
        *,
        outside: bool = False,
    ) -> Any:
        """The answer to a query.

        Raises:
            UsageError: When an argument does not fit.
            QueryTimeoutError: When the time is over.
        """
        ...
