"""Reads what a folder sink has written, by its manifests: whole microbatches, none missing."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from atoll.errors import DamageError, NotFoundError
from atoll.sinks.folder import MANIFESTS, manifest_numbers
from atoll.sinks.places import Place, place_of
from atoll.storage.numbered import number_name


@dataclass(frozen=True)
class FolderReader:
    """A folder as of the moment when it was asked for. Made by :func:`read_folder`.

    Attributes:
        manifests: What was written, in order: ``number``, ``microbatch``, ``timeline``,
            ``records``, ``files`` and so on. After a rollback that kept what was written the
            same ids come again under a higher timeline.
    """

    manifests: tuple[Mapping[str, Any], ...]
    _place: Place

    @property
    def last(self) -> int:
        """The number of the last one; 0 for none. Give it as ``after`` to go on later."""
        return int(self.manifests[-1]["number"]) if self.manifests else 0

    def tables(self) -> Iterator[pa.Table]:
        """The rows of one microbatch after the other.

        Raises:
            DamageError: When a file is missing, or not what was written.
        """
        for manifest in self.manifests:
            for file in manifest["files"]:
                yield self._table(file)

    def to_table(self) -> pa.Table:
        """All rows in memory; columns that were added later are null in earlier rows."""
        tables = [each.replace_schema_metadata() for each in self.tables()]
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})

    def _table(self, file: Mapping[str, Any]) -> pa.Table:
        try:
            data = self._place.read(file["name"])
        except NotFoundError as error:
            raise _damage("is missing", file["name"]) from error
        if (len(data), zlib.crc32(data)) != (file["bytes"], file["crc32"]):
            raise _damage("is damaged", file["name"])
        if file["name"].endswith(".arrow"):
            return pa.ipc.open_file(pa.py_buffer(data)).read_all()
        import pyarrow.parquet as pq

        return pq.read_table(pa.BufferReader(data))


def read_folder(
    url: str, *, after: int = 0, options: Mapping[str, Any] | None = None
) -> FolderReader:
    """What a :class:`~atoll.sinks.Folder` sink has written so far.

    Old files may be deleted together with their manifests, lowest number first.

    Args:
        url: As the sink has it.
        after: Leave out what was written up to this number.
        options: As the sink has them.

    Raises:
        DamageError: When a manifest is missing between others.
    """
    place = place_of(url, options or {})
    numbers = [number for number in manifest_numbers(place) if number > after]
    if numbers and numbers != list(range(numbers[0], numbers[-1] + 1)):
        missing = sorted({*range(numbers[0], numbers[-1])} - {*numbers})
        raise _damage("is missing", f"{MANIFESTS}/{number_name(missing[0])}.json")
    read = [place.read(f"{MANIFESTS}/{number_name(number)}.json") for number in numbers]
    return FolderReader(tuple(json.loads(each) for each in read), place)


def _damage(what: str, name: str) -> DamageError:
    return DamageError(
        f"a file of the folder {what}", hint="restore it from a copy of the folder", file=name
    )
