"""Rows that a function gives, stored once: a table that a Spark batch job reads, say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from atoll.errors import AtollError, DeclarationError
from atoll.sources.base import Lag, Position, Reader, Reads, Source, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.codec.records.refusals import Checked
    from atoll.sources.noting import NotingCodec

__all__ = ["Once"]


class Once(Source):
    """All that a function gives, as one append; then the source has ended, for ever.

    The function is called again when its append was not stored, and never after that. What it
    gives need not be the same each time: nothing of an earlier try is kept.

    ::

        Once("orders-2025", lambda: spark.read.parquet("orders/2025").toArrow())

    Args:
        id: Names what is read. Another name is another source, whose rows are stored as well.
        rows: Gives an Arrow table, a pandas DataFrame, or an iterable of mappings or of objects
            of a class with fields. It runs in the process that runs the module.
        dead_letter: Where records go that do not fit.

    Raises:
        DeclarationError: When it is no function, or has no name.
    """

    kind = "once"
    bounded = True

    def __init__(
        self,
        id: str,  # noqa: A002  # the word users know
        rows: Callable[[], Any],
        *,
        dead_letter: Any = None,
    ) -> None:
        if not isinstance(id, str) or not id:
            raise DeclarationError("rows that come once need a name", hint='Once("orders-2025", f)')
        if not callable(rows):
            raise DeclarationError(
                f"what comes once is given by a function, not by {type(rows).__name__}",
                hint="wrap it: lambda: ...",
            )
        super().__init__(id, id=id, poll="1 second", dead_letter=dead_letter)
        self.rows = rows

    def open(self, schema: pa.Schema) -> Reader:  # noqa: ARG002  # the codec knows it
        """Nothing is called yet."""
        return _OnceReader(self)


class _OnceReader(Reader):
    def __init__(self, source: Once) -> None:
        self._source = source

    def next(self, position: Position) -> Reads | None:
        """All of it, while none of it was stored."""
        return None if position else {"all": True}

    def read(self, reads: Reads, codec: NotingCodec) -> Iterator[Checked]:  # noqa: ARG002  # all
        """What the function gives."""
        from atoll.depot.append.checking import checked_parts

        codec.place = self._source.place
        try:
            yield from checked_parts(self._source.rows(), codec, self._source.place)
        except AtollError:
            raise
        except Exception as error:
            raise SourceError(
                f"the function of the source failed: {type(error).__name__}: {error}",
                hint="correct it, or what it reads; it is called again",
                problem="unreadable",
                place=self._source.place,
            ) from error

    def after(self, position: Position, reads: Reads) -> Position:  # noqa: ARG002  # all
        """It is done."""
        return {"all": True}

    def lag(self, position: Position) -> Lag:
        """One until it is stored."""
        return Lag(0 if position else 1, "appends")
