"""Rows for depots from a reading task to a durable file: all there, in order, refused in time."""

from __future__ import annotations

import zlib

import pyarrow as pa
import pytest

from atoll.ddl import parse_ddl
from atoll.depot.partitioner import Custom, HashBy, Random
from atoll.engine.actor import _Actor
from atoll.engine.actor import _unpacked as unpacked
from atoll.engine.program import JobProgram, JobSpec, Program
from atoll.engine.step import Phase
from atoll.errors import DepotError, RecordsRefusedError, UserCodeError
from atoll.steps.append_to.bind import BoundAppend
from atoll.steps.append_to.run import AppendPacker
from atoll.storage.folders import RootFolders
from atoll.storage.local import LocalStore

SCHEMA = parse_ddl("k string NOT NULL, v long, note string")


def _step(tag=3, depot="target", partitioner=None, partitions=4):
    return BoundAppend(
        tag, "append_to", "here.py:1", depot, SCHEMA, partitions, partitioner or Random()
    )


def _batch(keys, values, value_type=None):
    values = pa.array(values, value_type or pa.int32())
    return pa.RecordBatch.from_arrays([values, pa.array(keys, pa.string())], names=["v", "k"])


def _packed(step, *batches, unit=0):
    packer = AppendPacker(step, unit)
    for batch in batches:
        packer.add(batch)
    return list(packer.finish())


def _program(tmp_path, *steps):
    places = RootFolders(tmp_path / "root")
    return Program("m", "t", places, {}, (JobProgram(0, (), steps),), {})


def _written(program, blobs):
    """What an actor writes of rows that came for it."""
    actor = _Actor(program, _spec(), 0)
    actor._parts = unpacked(blobs)
    actor._run(Phase.HAND_ON)
    return actor.appended


def _spec(**changed):
    return JobSpec(
        **{"epoch": 2, "id": 7, "version": 1, "job": 0, "committed": 6, "splits": ()} | changed
    )


def test_rows_take_the_columns_of_the_depot():
    """By name, widened, what is missing null, in the order that they came."""
    blobs = _packed(_step(), _batch(["a", "b"], [1, None]), _batch([], []), _batch(["c"], [3]))
    assert [unit for unit, _ in blobs] == [0]
    rows = pa.ipc.open_stream(blobs[0][1]).read_all()
    assert rows.schema == SCHEMA
    assert rows.to_pylist() == [
        {"k": "a", "v": 1, "note": None},
        {"k": "b", "v": None, "note": None},
        {"k": "c", "v": 3, "note": None},
    ]


def test_only_the_chosen_unit_takes_them():
    """Without an exchange every actor packs all rows, and one of them keeps them."""
    packer = AppendPacker(_step(), 1)
    packer.add(_batch(["a"], [1]))
    assert [[unit for unit, _ in packer.finish(only=[each])] for each in (0, 1, 2)] == [[], [1], []]
    assert _packed(_step()) == []


def test_what_the_depot_would_refuse_fails_the_attempt():
    """A commit that stands must never hold rows that its depot does not take."""
    with pytest.raises(RecordsRefusedError, match=r"1 of 2 rows .* NOT NULL") as caught:
        _packed(_step(), _batch(["a", None], [1, 2]))
    assert caught.value.context["declared"] == "here.py:1"
    assert caught.value.context["operator"] == "append_to"
    with pytest.raises(UserCodeError, match="ZeroDivisionError"):
        _packed(_step(partitioner=Custom(lambda row, n: row["v"] // 0)), _batch(["a"], [1]))
    with pytest.raises(DepotError, match="no depot partition"):
        _packed(_step(partitioner=Custom(lambda row, n: n)), _batch(["a"], [1]))
    assert _packed(_step(partitioner=HashBy("k")), _batch(["a"], [1]))


def test_an_actor_writes_a_file_for_each_reading_task(tmp_path):
    """Names sort as the rows came; size, checksum and rows are those of the file."""
    first, second = _step(3), _step(12, "other")
    store = LocalStore(tmp_path / "root")
    program = _program(tmp_path, first, second)
    blobs = []
    for tag, sequence, step in [(12, 0, second), (3, 11, first), (3, 2, first)]:
        rows = _packed(step, _batch([f"{tag}-{sequence}"], [sequence]))[0][1]
        blobs.append((tag, sequence, rows))
    written = sorted(_written(program, blobs), key=lambda each: each.file.name)

    assert [each.depot for each in written] == ["target", "target", "other"]
    keys = []
    for each in written:
        data = store.read(each.file.name)
        assert (len(data), zlib.crc32(data)) == (each.file.size, each.file.crc)
        rows = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        assert (rows.num_rows, rows.schema) == (each.file.rows, SCHEMA)
        keys += rows.column("k").to_pylist()
    assert keys == ["3-2", "3-11", "12-0"]
    assert all(each.file.name.startswith(f"m/t/appends/{7:020d}-0000-") for each in written)


def test_two_runs_of_one_task_write_two_files(tmp_path):
    """Neither takes away the other's: a manifest says which of them counts."""
    step = _step()
    store = LocalStore(tmp_path / "root")
    rows = _packed(step, _batch(["a"], [1]))[0][1]
    names = set()
    for _ in range(2):
        written = _written(_program(tmp_path, step), [(3, 0, rows)])
        names |= {each.file.name for each in written}
    assert len(names) == 2
    assert sorted(names) == store.list("m/t/appends")
