"""What a module declares of a log that others keep, so that a depot reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from atoll.depot.logs.followed import LogDepot


class OutsideLog(ABC):
    """A log that others keep: what a depot's declaration says of it.

    It is pickled with the topology, so it holds no secrets, only where they are.
    """

    kind: ClassVar[str]
    """What sort of log, in a word."""

    @property
    @abstractmethod
    def rows(self) -> pa.Schema:
        """The columns of a record as tasks read it, before it is decoded."""

    @abstractmethod
    def check(self, schema: pa.Schema) -> None:
        """Hold that its records can have such columns.

        Raises:
            DeclarationError: When they cannot.
        """

    @abstractmethod
    def decoding(self, source: Any, depot: str, schema: pa.Schema, *, sets_aside: bool) -> Any:
        """The step of tasks, a ``BatchOperator``, that makes the declared columns of what was read.

        Args:
            source: The operator before it.
            depot: The depot's name.
            schema: The declared columns.
            sets_aside: Whether the topology has a depot for rows that it sets aside.

        Raises:
            DeclarationError: When it has none, and records that cannot be decoded go there.
        """

    @abstractmethod
    def follow(self, depot: str, schema: pa.Schema, before: Mapping[str, Any] | None) -> LogDepot:
        """Find the log and begin to follow it.

        Args:
            depot: The depot's name.
            schema: The declared columns.
            before: What a deployment that stands said of it (:attr:`LogDepot.described`).

        Raises:
            LogError: When it cannot be asked, or is another one than before.
        """
