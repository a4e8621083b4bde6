"""A codec that keeps what it refuses, all of it and with its text, to be set aside.

The codec of depots names the first refused records of a call and counts the others. A source's
records are nobody's call: who set none aside would lose them. So what holds more refusals than are
named is halved until each is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.sources.base import SourceError

_REFUSED_MAX = 100_000
_TEXT_MAX = 65_536


@dataclass(frozen=True)
class Refused:
    """A record that does not fit: the file or table, its line there, why, and what it was."""

    place: str
    line: int
    reason: str
    row: str


class NotingCodec(RecordCodec):
    """Checks the records of one append.

    Args:
        schema: The depot's.
        sets_aside: Whether refused records are kept in ``refused``; else the first is an error.
    """

    def __init__(self, schema: pa.Schema, *, sets_aside: bool) -> None:
        super().__init__(schema)
        self.place = ""
        """What is being read, in words: the reader says it."""
        self.refused: list[Refused] = []
        self._sets_aside = sets_aside

    def from_rows(self, rows: Iterable[Any], first_line: int = 1) -> Checked:
        """As the codec's."""
        found = rows if isinstance(rows, list) else list(rows)
        checked = super().from_rows(found, first_line)
        if _unnamed(checked) and len(found) > 1:
            half = len(found) // 2
            return self._joined(
                self.from_rows(found[:half], first_line),
                self.from_rows(found[half:], first_line + half),
            )
        return self._noted(checked, lambda line: _json(found[line - first_line]))

    def from_json_lines(self, data: bytes, first_line: int = 1) -> Checked:
        """As the codec's."""
        checked = super().from_json_lines(data, first_line)
        if not checked.refused_count:
            return checked
        lines = data.split(b"\n")
        if _unnamed(checked):
            half = len(lines) // 2
            return self._joined(
                self.from_json_lines(b"\n".join(lines[:half]), first_line),
                self.from_json_lines(b"\n".join(lines[half:]), first_line + half),
            )
        return self._noted(
            checked, lambda line: lines[line - first_line].decode("utf-8", "replace")
        )

    def from_cells(
        self, columns: Sequence[str], cells: Sequence[Sequence[str]], lines: Sequence[int]
    ) -> Checked:
        """As the codec's."""
        checked = super().from_cells(columns, cells, lines)
        if _unnamed(checked) and len(cells) > 1:
            half = len(cells) // 2
            return self._joined(
                self.from_cells(columns, cells[:half], lines[:half]),
                self.from_cells(columns, cells[half:], lines[half:]),
            )
        return self._noted(checked, lambda line: _json(list(cells[lines.index(line)])))

    def from_arrow(self, data: pa.Table | pa.RecordBatch, first_line: int = 1) -> Checked:
        """As the codec's."""
        checked = super().from_arrow(data, first_line)
        if _unnamed(checked) and data.num_rows > 1:
            half = data.num_rows // 2
            return self._joined(
                self.from_arrow(data.slice(0, half), first_line),
                self.from_arrow(data.slice(half), first_line + half),
            )

        def row(line: int) -> str:
            try:
                return _json(data.slice(line - first_line, 1).to_pylist()[0])
            except (ValueError, OverflowError) as error:  # what Python cannot hold
                return f"not shown: {error}"

        return self._noted(checked, row)

    def _noted(self, checked: Checked, row: Any) -> Checked:
        for each in checked.refusals:
            refused = Refused(self.place, each.line, each.reason, row(each.line)[:_TEXT_MAX])
            if not self._sets_aside:
                raise SourceError(
                    f"a record does not fit the depot: {each.reason}",
                    hint="correct it where it lies, or declare the source with dead_letter=, "
                    "where such records go",
                    problem="refused",
                    place=refused.place,
                    line=refused.line,
                )
            self.refused.append(refused)
        if len(self.refused) > _REFUSED_MAX:
            raise SourceError(
                f"more than {_REFUSED_MAX} records of one append do not fit the depot",
                hint="correct the depot's schema, or what is read",
                problem="refused",
                place=self.place,
            )
        return checked

    def _joined(self, first: Checked, second: Checked) -> Checked:
        whole = pa.Table.from_batches([first.batch, second.batch]).combine_chunks().to_batches()
        batch = whole[0] if whole else self.empty()
        refusals = [*first.refusals, *second.refusals]
        return Checked(batch, refusals, first.refused_count + second.refused_count)


def _unnamed(checked: Checked) -> bool:
    return checked.refused_count > len(checked.refusals)


def _json(row: Any) -> str:
    return msgspec.json.encode(row, enc_hook=repr).decode()
