"""Rows set aside in tasks: as JSON, a few megabytes at a time, as the depot will hold them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

from atoll.engine.exchange import rejects
from atoll.engine.exchange.rejects import REJECTS, RejectPacker, RejectWriter, row_text
from atoll.errors import StateError, UserCodeError
from atoll.storage.folders import RootFolders
from atoll.storage.local import LocalStore
from atoll.topology.rows import rows_of

STEP = SimpleNamespace(title="map", place="shop.py:12")


@pytest.fixture
def parts(tmp_path):
    """A program and a spec, as far as they are asked."""
    program = SimpleNamespace(
        module="m", topology="mb", root=tmp_path, local=tmp_path / "local", units=(0, 1),
        dead_letter="rejected", folders=RootFolders(tmp_path),
    )  # fmt: skip
    return program, SimpleNamespace(
        id=7, epoch=1, version=2, job=0, ranges={"rows": [(10, 5_010), (0, 3)]}
    )


def _row(**values):
    return next(rows_of(pa.RecordBatch.from_pylist([values])))


def test_rows_as_json():
    """What JSON has as it is; anything else as Python writes it."""
    row = _row(s='é"', i=1, n=None, l=[1, None], t={"x": 1.5})
    assert json.loads(row_text(row)) == row.asdict()
    odd = _row(b=b"\0", d=dt.date(2026, 3, 1), m=decimal.Decimal("1.50"), f=float("nan"))
    assert json.loads(row_text(odd)) == {
        "b": "b'\\x00'", "d": "datetime.date(2026, 3, 1)", "m": "Decimal('1.50')", "f": "nan",
    }  # fmt: skip


def test_what_is_written_is_what_was_taken(parts, tmp_path):
    """From reading tasks and the actor itself; places by the plan, errors by their cause."""
    program, spec = parts
    store = LocalStore(tmp_path)
    packer = RejectPacker(program, spec, sequence=3)
    wrong = UserCodeError("ValueError in map", line="shop.py:3")
    wrong.__cause__ = ValueError("no")
    packer.add(STEP, _row(k=1), 5_001, wrong)
    ((unit, blob),) = packer.finish()
    assert unit == 1
    assert list(packer.finish(only=[0])) == []
    writer = RejectWriter(program, spec, "token", store)
    others = writer.take([(4, 0, blob), (REJECTS, 3, blob)])
    assert [tag for tag, _, _ in others] == [4]
    writer.own.add(STEP, _row(k=2), None, StateError("a key of another vnode"))
    written = writer.write()
    assert {(each.depot, each.kind, each.file.rows) for each in written} == {
        ("rejected", "rejected", 1)
    }
    tables = [pa.ipc.open_file(tmp_path / each.file.name).read_all() for each in written]
    first, second = pa.concat_tables(tables).to_pylist()
    assert first == {
        "topology": "mb", "operator": "map", "microbatch": 7, "depot": "rows",
        "depot_partition": 1, "record_offset": 1, "error": "ValueError: no",
        "line": "shop.py:3", "row": '{"k": 1}',
    }  # fmt: skip
    assert (second["depot"], second["record_offset"]) == (None, None)
    assert second["line"] == "shop.py:12", "where the step was declared"
    assert second["error"] == "a key of another vnode"


def test_a_task_holds_only_some_of_them(parts, tmp_path, monkeypatch):
    """However many there are, each once and in order."""
    monkeypatch.setattr(rejects, "_CHUNK_BYTES", 50_000)
    program, spec = parts
    packer = RejectPacker(program, spec)
    for number in range(5_000):
        packer.add(STEP, _row(k=number), number, UserCodeError("no"))
        assert len(packer._records) < 250
    blobs = list(packer.finish())
    assert len(blobs) > 20
    writer = RejectWriter(program, spec, "token", LocalStore(tmp_path))
    writer.take([(REJECTS, 0, blob) for _, blob in blobs])
    written = writer.write()
    tables = [pa.ipc.open_file(tmp_path / each.file.name).read_all() for each in written]
    rows = pa.concat_tables(tables)
    assert rows.column("record_offset").to_pylist() == [10 + number for number in range(5_000)]
    assert [each.file.name for each in written] == sorted(each.file.name for each in written)
