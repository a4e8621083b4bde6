"""Files of a folder or a bucket, each read once.

What was read is a list of names with size and stamp. A file is not looked into again: one that is
other than it was when it was read is an error, for nobody can say what of it is new.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from atoll.depot.formats import Format, format_of
from atoll.durations import parse_millis
from atoll.errors import DeclarationError, UsageError
from atoll.sources.base import Lag, Position, Reader, Reads, Source, SourceError
from atoll.sources.listing import Found, Place, place_of

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.codec.records.refusals import Checked
    from atoll.sources.noting import NotingCodec

__all__ = ["Files"]

Order = Literal["name", "time"]


class Files(Source):
    """Every file that a pattern means, those that come later too: each record exactly once.

    JSON lines, CSV with a header (both also gzipped), Parquet and Arrow. Names that begin with
    ``.`` or ``_``, or end as unfinished ones do (``.tmp``, ``.part``), are not meant.

    Args:
        path: A pattern with a wild card: ``in/*.jsonl``, ``in/**/*.csv.gz``,
            ``s3://bucket/orders/*.parquet``.
        format: ``jsonl``, ``csv``, ``parquet`` or ``arrow``; by default each name's ending tells.
        order: Which of the new files comes first: by ``name``, or by the ``time`` it was written.
        settled: A file of a folder is read when it was not written to for so long; what stands
            behind it in the order waits for it.
        files_max: So many files at most are one append.
        bytes_max: An append takes no further file when it has so many bytes.
        options: What the store of a bucket needs: ``{"region": ...}``, as obstore names them.
        id: See :class:`~atoll.sources.base.Source`; by default the whole pattern.
        poll: How long to wait after nothing new was found.
        dead_letter: Where records go that do not fit.

    Raises:
        DeclarationError: When the pattern has no wild card, or an argument cannot be.
    """

    kind = "files"

    def __init__(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,  # noqa: A002  # the word users know
        order: Order = "name",
        settled: Any = "1 second",
        files_max: int = 1000,
        bytes_max: int = 64 * 1024 * 1024,
        options: Mapping[str, str] | None = None,
        id: str | None = None,  # noqa: A002  # the word users know
        poll: Any = "1 second",
        dead_letter: Any = None,
    ) -> None:
        self.files = place_of(path, options or {})
        place = f"{self.files.base.rstrip('/')}/{self.files.pattern}"
        super().__init__(place, id=id, poll=poll, dead_letter=dead_letter)
        if order not in {"name", "time"}:
            raise DeclarationError(f"files have no order {order!r}", hint="use 'name' or 'time'")
        if format is not None and format not in set(Format):
            raise DeclarationError(
                f"there is no format {format!r}", hint=f"use one of {', '.join(Format)}"
            )
        if files_max < 1 or bytes_max < 1:
            raise DeclarationError("an append takes one file at least", hint="raise its limit to 1")
        self.format = format
        self.order = order
        self.settled_ns = parse_millis(settled, "the age of a settled file", least=0) * 1_000_000
        self.files_max = files_max
        self.bytes_max = bytes_max

    def open(self, schema: pa.Schema) -> Reader:  # noqa: ARG002  # the codec knows it
        """Get ready to look for files."""
        return _FilesReader(self, self.files)


class _FilesReader(Reader):
    def __init__(self, source: Files, place: Place) -> None:
        self._source = source
        self._place = place
        self._waiting: int | None = None

    def next(self, position: Position) -> Reads | None:
        """The first new files in order, up to the limits."""
        known = position.get("files", {})
        new = []
        for each in self._place.found():
            if each.name not in known:
                new.append(each)
            elif known[each.name] != [each.size, each.stamp]:
                raise self._changed(each.name)
        self._waiting = len(new)
        now_ns = time.time_ns()
        settled = takewhile(lambda each: self._is_settled(each, now_ns), self._ordered(new))
        taken: list[Found] = []
        for each in settled:
            full = sum(one.size for one in taken) >= self._source.bytes_max
            if full or len(taken) == self._source.files_max:
                break
            taken.append(each)
        return {"files": [[each.name, each.size, each.stamp] for each in taken]} if taken else None

    def read(self, reads: Reads, codec: NotingCodec) -> Iterator[Checked]:
        """Each file as it was found."""
        from atoll.depot.files import records_of

        for name, size, stamp in reads["files"]:
            place = f"{self._place.base.rstrip('/')}/{name}"
            codec.place = place
            kind = self._format(name, place)
            with self._place.opened(name, size, stamp) as raw:
                try:
                    yield from records_of(raw, codec, kind, place=place)
                except UsageError as error:
                    raise SourceError(
                        error.message,
                        hint=error.hint or "put the file right, or take it away",
                        problem="unreadable",
                        **{**error.context, "place": place},
                    ) from error

    def after(self, position: Position, reads: Reads) -> Position:
        """With these files, too."""
        known = position.setdefault("files", {})
        known.update({name: [size, stamp] for name, size, stamp in reads["files"]})
        if reads["files"]:
            position["last"] = reads["files"][-1][0]
        return position

    def lag(self, position: Position) -> Lag:  # noqa: ARG002  # counted as they were found
        """How many new files there were at the last look."""
        return Lag(self._waiting, "files")

    def shown(self, position: Position) -> Mapping[str, Any]:
        """How many files were read, and the last of them."""
        return {"files": len(position.get("files", {})), "last": position.get("last")}

    def _ordered(self, new: list[Found]) -> list[Found]:
        if self._source.order == "name":
            return sorted(new, key=lambda each: each.name)
        return sorted(new, key=lambda each: (each.at_ns, each.name))

    def _is_settled(self, each: Found, now_ns: int) -> bool:
        age = now_ns - each.at_ns
        return self._place.atomic or age >= self._source.settled_ns or age < 0

    def _format(self, name: str, place: str) -> Format:
        if self._source.format is not None:
            return Format(self._source.format)
        found = format_of(PurePosixPath(name))
        if found is None:
            raise SourceError(
                "which format the file has is not clear",
                hint=f"declare the source with format=: {', '.join(Format)}",
                problem="unreadable",
                place=place,
            )
        return found

    def _changed(self, name: str) -> SourceError:
        return SourceError(
            "a file has changed after it was read, and is not read again",
            hint="put it back as it was, or take it away; give what is new a name of its own",
            problem="changed",
            place=f"{self._place.base.rstrip('/')}/{name}",
        )
