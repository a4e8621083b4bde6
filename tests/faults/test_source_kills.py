"""Sources killed before each call that changes files: every numbered record is stored once.

So are those that do not fit, in the depot where they are set aside. A second life is killed as
well; a third one reads to the end. Small: some of the calls; in the soak all of them, and pairs.
"""

from __future__ import annotations

import json
import random
import time

import pyarrow as pa
import pytest
from harness import Zygote, replay, report, seed, soaking, volume, zygote
from postgres import database, postgres_server

__all__ = ["database", "postgres_server"]

GOOD = [n for n in range(16) if n % 5]
BAD = [n for n in range(16) if n % 5 == 0]


@pytest.fixture(scope="module")
def source_children():
    """A zygote that has imported the sources."""
    with zygote("source_lives") as made:
        yield made


@pytest.fixture
def files(tmp_path):
    """Sixteen numbered records in four files, some of which do not fit."""
    folder = tmp_path / "in"
    folder.mkdir()
    for first in range(0, 16, 4):
        numbers = range(first, first + 4)
        text = "".join(json.dumps({"v": n if n % 5 else None}) + "\n" for n in numbers)
        (folder / f"{first:02}.jsonl").write_text(text)
    return str(folder)


@pytest.fixture
def table(database):
    """The same as rows of a table; what is null does not fit."""
    import psycopg

    with psycopg.connect(database) as connection:
        connection.execute("create table t (id serial primary key, v bigint)")
        for n in range(16):
            connection.execute("insert into t (v) values (%s)", [n if n % 5 else None])
    return database


def test_files_are_read_once_whatever_call_is_the_last(source_children, files, tmp_path):
    """JSON lines, one file an append."""
    _kill_at_every_call("files", files, source_children, tmp_path, small=5)


def test_rows_are_read_once_whatever_call_is_the_last(source_children, table, tmp_path):
    """PostgreSQL, four rows an append."""
    _kill_at_every_call("postgres", table, source_children, tmp_path, small=3)


def test_delta_versions_are_read_once_whatever_call_is_the_last(source_children, tmp_path):
    """A version an append."""
    deltalake = pytest.importorskip("deltalake")
    where = str(tmp_path / "table")
    for rows in _tables():  # version 0 is empty
        deltalake.write_deltalake(where, rows, mode="append")
    _kill_at_every_call("delta", where, source_children, tmp_path, small=3)


def test_iceberg_snapshots_are_read_once_whatever_call_is_the_last(source_children, tmp_path):
    """A snapshot an append."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    catalog = catalogs.load_catalog("c", **properties)
    catalog.create_namespace("n")
    empty, *tables = _tables()
    table = catalog.create_table("n.t", schema=empty.schema)
    for rows in (empty, *tables):
        table.append(rows)
    where = json.dumps({"properties": properties, "after": table.snapshots()[0].snapshot_id})
    _kill_at_every_call("iceberg", where, source_children, tmp_path, small=3)
    catalog.close()


def _tables():
    """The sixteen records in four tables, behind one that is empty."""
    for first in range(-4, 16, 4):
        numbers = [n if n % 5 else None for n in range(first, first + 4) if first >= 0]
        yield pa.table({"v": pa.array(numbers, pa.int64())})


def _kill_at_every_call(kind: str, where: str, children: Zygote, folder, small: int) -> None:
    began = time.monotonic()

    def life(root, epoch, number=0):
        call = {"root": str(root), "kind": kind, "where": where, "epoch": epoch}
        return children.run("source_lives:live", number=number, **call)

    def check(ended, about):
        ended.expect(killed=False, about=about)
        assert json.loads(ended.said("values")[0]) == GOOD, (about, replay(__name__))
        found = json.loads(ended.said("aside")[0])
        assert len(found) == len(set(found)) == len(BAD), (about, replay(__name__))

    whole = life(folder / "whole", 1)
    check(whole, "undisturbed")
    calls = int(whole.said("calls")[0])
    dice = random.Random(seed())
    numbers = list(range(1, calls + 1)) if soaking() else dice.sample(range(1, calls), small)
    faults = 0
    for number in numbers:
        root = folder / f"at-{number}"
        faults += life(root, 1, number).killed
        faults += life(root, 2, dice.randrange(1, volume(40, calls))).killed
        check(life(root, 3), f"{kind} killed at call {number} of {calls}")
    assert faults > len(numbers)
    report(f"sources: {kind}", faults, 0, began, calls=calls)
