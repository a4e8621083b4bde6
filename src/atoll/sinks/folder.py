"""A folder of Parquet or Arrow files, on a disk or in a bucket: one file per microbatch.

::

    orders/data/00000000000000000007.parquet       the rows of parcel 7, whole or not there
    orders/_atoll/00000000000000000007.json        its manifest: rows, bytes, CRC-32, microbatch
    orders/_atoll/identity.json                    whose folder it is

A file is created under its parcel's number, and a number is taken once. So each row is there
exactly once, whoever wrote the file, and however often: a second writer finds the name taken.
Tools that read ``data`` see whole microbatches only. Who goes by the manifests
(:func:`~atoll.sinks.read_folder`) also sees that none is missing and none was damaged.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pyarrow as pa

from atoll.errors import NotFoundError, SinkError
from atoll.sinks.interface import Guarantee, Opening, Sink, SinkParcel, SinkRows, SinkWriter
from atoll.sinks.places import Place, place_of
from atoll.storage.numbered import number_name
from atoll.storage.objects import ObjectExistsError

_FORMATS = ("parquet", "arrow")
DATA, MANIFESTS = "data", "_atoll"
IDENTITY = f"{MANIFESTS}/identity.json"
_DIGITS = 20


@dataclass(frozen=True)
class Folder(Sink):
    """Writes each microbatch as one file; exactly once.

    Args:
        url: A path, or ``s3://bucket/folder``, ``gs://...``, ``az://...``, which need the extra
            ``atoll[objects]``. It must be empty, or be this sink's already.
        format: ``parquet`` or ``arrow`` (Arrow IPC files).
        options: For a bucket what obstore's ``from_url`` takes: ``endpoint``, ``region``,
            ``access_key_id`` and so on. They are never shown.
    """

    url: str
    format: Literal["parquet", "arrow"] = "parquet"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    kind: ClassVar[str] = "folder"
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    def __post_init__(self) -> None:
        """Refuse another format."""
        if self.format not in _FORMATS:
            raise SinkError(
                f"a folder of {self.format!r} files cannot be written",
                hint=f"use one of {', '.join(_FORMATS)}",
            )

    @property
    def target(self) -> str:
        """The URL."""
        return self.url

    @property
    def signature(self) -> Mapping[str, str]:
        """The format of its files."""
        return {"format": self.format}

    def check(self, rows: SinkRows) -> None:
        """Hold that the format has all types of the columns."""
        try:
            _encoded(rows.schema, rows.schema.empty_table(), self.format)
        except (pa.ArrowException, ValueError) as error:
            raise SinkError(
                f"{self.format} files cannot hold such columns: {error}",
                hint="convert them with select(...), or write another format",
            ) from error

    def open(self, opening: Opening) -> FolderWriter:
        """Make the folder this sink's, if it is nobody's."""
        place = place_of(self.url, self.options)
        self._claim(place, opening.identity)
        return FolderWriter(self, place, opening)

    def _claim(self, place: Place, identity: str) -> None:
        mine = json.dumps({"identity": identity}).encode()
        try:
            found = place.read(IDENTITY)
        except NotFoundError:
            if not place.is_empty():
                raise SinkError(
                    f"{self.url} holds files that no sink wrote",
                    hint="give the sink an empty folder",
                ) from None
            with contextlib.suppress(ObjectExistsError):  # another one came in between
                place.create(IDENTITY, mine)
            found = place.read(IDENTITY)
        if json.loads(found)["identity"] != identity:
            raise SinkError(
                f"{self.url} is the folder of another sink, {json.loads(found)['identity']}",
                hint="give the sink a folder of its own",
            )


class FolderWriter(SinkWriter):
    """Writes files to a folder that is its sink's."""

    def __init__(self, sink: Folder, place: Place, opening: Opening) -> None:
        """Nothing is written."""
        self._sink = sink
        self._place = place
        self._opening = opening
        self._last = self.last_written()

    def last_written(self) -> int:
        """The highest manifest."""
        numbers = manifest_numbers(self._place)
        return numbers[-1] if numbers else 0

    def write(self, parcel: SinkParcel) -> None:
        """First the file, then its manifest; each finds out whether it was there already."""
        if parcel.number > self._last + 1:
            self._last = self.last_written()
        if not parcel.is_next(self._last, self._sink.url, "restore the files that are missing"):
            return
        self._manifest(parcel, [self._file(parcel)] if parcel.records else [])
        self._last = parcel.number

    def _file(self, parcel: SinkParcel) -> dict[str, Any]:
        about = {
            "atoll.identity": self._opening.identity,
            "atoll.number": str(parcel.number),
            "atoll.microbatch": str(parcel.microbatch),
            "atoll.timeline": str(parcel.timeline),
        }
        schema = parcel.schema.with_metadata({**(parcel.schema.metadata or {}), **about})
        table = pa.Table.from_batches(parcel.batches(), parcel.schema).cast(schema)
        data = _encoded(schema, table, self._sink.format)
        name = f"{DATA}/{number_name(parcel.number)}.{self._sink.format}"
        try:
            self._place.create(name, data)
        except ObjectExistsError:  # a writer before died here; the rows are the same
            data = self._place.read(name)
        return {
            "name": name,
            "records": parcel.records,
            "bytes": len(data),
            "crc32": zlib.crc32(data),
        }

    def _manifest(self, parcel: SinkParcel, files: list[dict[str, Any]]) -> None:
        manifest = {
            "identity": self._opening.identity,
            "number": parcel.number,
            "microbatch": parcel.microbatch,
            "timeline": parcel.timeline,
            "sent_at_ms": parcel.sent_at_ms,
            "keys": list(self._opening.rows.keys),
            "records": parcel.records,
            "files": files,
        }
        name = f"{MANIFESTS}/{number_name(parcel.number)}.json"
        with contextlib.suppress(ObjectExistsError):  # another writer was faster; it says the same
            self._place.create(name, json.dumps(manifest).encode())


def manifest_numbers(place: Place) -> list[int]:
    """The numbers of the manifests that there are, in order; other names are passed over."""
    stems = [
        name.rsplit("/", 1)[-1].removesuffix(".json")
        for name in place.list(MANIFESTS)
        if name.endswith(".json")
    ]
    return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal())


def _encoded(schema: pa.Schema, table: pa.Table, kind: str) -> bytes:
    out = pa.BufferOutputStream()
    if kind == "arrow":
        with pa.ipc.new_file(out, schema) as writer:
            writer.write_table(table)
    else:
        import pyarrow.parquet as pq

        pq.write_table(table, out, store_schema=True)
    return bytes(out.getvalue())
