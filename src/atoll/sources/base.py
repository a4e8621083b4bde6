"""What a source is: something outside from which a depot is fed, each record exactly once.

A source is declared with its depot and says where records come from. Opened it is a *reader*,
which knows three things: what comes next after a *position*, the records of exactly that, and the
position behind it. It keeps nothing: what was read is kept beside the depot
(:mod:`atoll.sources.kept`), and whether it was, only the depot says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.durations import parse_millis
from atoll.errors import AtollError

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.codec.records.refusals import Checked
    from atoll.sources.noting import NotingCodec

Position = dict[str, Any]
"""How far a source was read, as JSON holds it; empty before anything was."""

Reads = dict[str, Any]
"""What one append takes from a source, as JSON holds it: names and versions, no records."""


class SourceError(AtollError):
    """What is outside cannot be read as it must be; ``context["problem"]`` says why.

    ``unreachable``: it does not answer. ``unreadable``: it is not what it was said to be.
    ``changed``: what was read before is other now. ``gone``: what was to be read is no longer
    there. ``refused``: a record does not fit, and nobody takes such records. ``unsafe``: it could
    be read only with losses.
    """

    code = "E-SOURCE"


def without_package(what: str, package: str, extra: str, place: str) -> SourceError:
    """That a package is not installed which a source needs.

    Args:
        what: What is to be read.
        package: The package.
        extra: The extra of Atoll that brings it.
        place: What is read from.
    """
    return SourceError(
        f"reading {what} needs the package {package}",
        hint=f"install atoll[{extra}]",
        problem="unreachable",
        place=place,
    )


class NoLongerThereError(SourceError):
    """What was planned and not yet stored is gone or changed: something else is planned then."""


@dataclass(frozen=True)
class Lag:
    """What there is to be read still.

    Attributes:
        waiting: How many of them; None when that is not known.
        of: What they are: ``files``, ``rows``, ``versions``, ``snapshots``.
    """

    waiting: int | None
    of: str


class Source(ABC):
    """What a depot is fed from, as it was declared. It opens nothing.

    Args:
        id: Names what is read: how far it was read is kept under this name. By default it is
            where it lies; give one where that may move.
        poll: How long to wait after nothing new was found.
        dead_letter: What ``module.dead_letter_depot(...)`` returned: records that do not fit the
            depot go there, and the others go on. Without it such a record stops the source.
    """

    kind: ClassVar[str]
    """Names the kind in status and metrics."""
    bounded: ClassVar[bool] = False
    """Whether it ends when nothing new is found."""

    def __init__(
        self,
        place: str,
        *,
        id: str | None,  # noqa: A002  # the word users know
        poll: Any,
        dead_letter: Any,
    ) -> None:
        self.place = place
        self.id = id or place
        self.poll_seconds = parse_millis(poll, f"the time between two looks at {place}") / 1000
        self.dead_letter = dead_letter

    def __repr__(self) -> str:
        """Kind and place: ``<source files '/data/in/*.jsonl'>``."""
        return f"<source {self.kind} {self.place!r}>"

    @abstractmethod
    def open(self, schema: pa.Schema) -> Reader:
        """Get ready to read.

        Args:
            schema: The depot's.

        Raises:
            SourceError: When it cannot be read, or only with losses.
        """


class Reader(ABC):
    """A source that was opened. Used by one thread at a time."""

    @abstractmethod
    def next(self, position: Position) -> Reads | None:
        """What one append shall take after a position; None while there is nothing new.

        Raises:
            SourceError: When it cannot be read, or is not what it was.
        """

    @abstractmethod
    def read(self, reads: Reads, codec: NotingCodec) -> Iterator[Checked]:
        """The records of exactly what :meth:`next` said, now or in another life.

        Raises:
            NoLongerThereError: When it is not there any more as it was then.
            SourceError: When it cannot be read.
        """

    @abstractmethod
    def after(self, position: Position, reads: Reads) -> Position:
        """The position when that is stored; it may be the very object given, changed."""

    @abstractmethod
    def lag(self, position: Position) -> Lag:
        """What there was to be read at the last look."""

    def shown(self, position: Position) -> Mapping[str, Any]:
        """The position in the few words of a status."""
        return position

    def close(self) -> None:  # noqa: B027  # most have nothing open
        """Let go of what is open."""
