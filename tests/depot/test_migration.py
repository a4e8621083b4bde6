"""Records through migrations: compared with plain Python, whatever came in between."""

from __future__ import annotations

import pickle
import random

import pytest

from atoll.codec.records.codec import RecordCodec
from atoll.ddl import parse_ddl, to_ddl
from atoll.depot import DepotReader
from atoll.depot.depot import Depot
from atoll.depot.migration import (
    DepotMigration,
    NotMigratedError,
    generation_of_rows,
    generation_of_segment,
    migrate,
)
from atoll.depot.spec import DepotSpec
from atoll.errors import DepotError, UserCodeError

FIRST, WIDER, SECOND, THIRD, HALVES = (
    to_ddl(parse_ddl(each))  # as segments and deployments spell it
    for each in (
        "k string, v long",
        "k string, v long, w long",
        "k string, v string NOT NULL, w long",
        "key string, text string NOT NULL",
        "k string, v double",
    )
)


def to_text(record):
    """The first migration; what was null before the column was added counts as none."""
    return {**record, "v": f"<{record['v']}>", "w": record["w"] or 0}


def renamed(record):
    """The second one."""
    return {"key": record["k"], "text": f"{record['v']}/{record['w']}"}


def none(record):
    """Not to be: there are no tombstones."""


def pickled(function):
    """As a deployment keeps it."""
    return pickle.dumps(function)


TEXT = DepotMigration("text", WIDER, SECOND, pickled(to_text), (4, 2))
RENAME = DepotMigration("rename", SECOND, THIRD, pickled(renamed), (4, 7))


def batch(ddl, rows):
    """A batch of rows."""
    return RecordCodec(parse_ddl(ddl)).from_rows(rows).batch


@pytest.mark.parametrize(
    ("bases", "generation"),
    [((0, 0), 0), ((4, 1), 0), ((3, 2), 0), ((4, 2), 1), ((9, 6), 1), ((4, 7), 2), ((9, 9), 2)],
)
def test_a_segments_first_offsets_say_what_its_records_have_to_go_through(bases, generation):
    """It belongs to the time before as long as one partition has records of then."""
    assert generation_of_segment((TEXT, RENAME), bases) == generation
    unsealed = (TEXT, DepotMigration("rename", SECOND, THIRD, b""))
    assert generation_of_segment(unsealed, bases) == min(1, generation)


@pytest.mark.parametrize(
    ("stored", "generation"), [(FIRST, 0), (WIDER, 0), (SECOND, 1), (THIRD, 2), ("x INT", 2)]
)
def test_rows_without_offsets_are_told_by_their_schema(stored, generation):
    """So rows that were owed when the module was updated go through what came since."""
    assert generation_of_rows((TEXT, RENAME), THIRD, stored) == generation


def test_a_column_that_a_migration_fills_is_not_taken_for_an_added_one():
    """The schema after it extends the one before, and still older rows go through it."""
    chain = (DepotMigration("fill", FIRST, WIDER, b"", (0,)),)
    assert generation_of_rows(chain, WIDER, FIRST) == 0
    assert generation_of_rows(chain, WIDER, WIDER) == 1


def test_two_migrations_and_added_columns_compose():
    """As if each had been applied to every record in turn."""
    rows = [{"k": "a", "v": 1}, {"k": None, "v": None}]
    expected = [{"key": row["k"], "text": f"<{row['v']}>/0"} for row in rows]
    made = migrate(batch(FIRST, rows), (TEXT, RENAME), parse_ddl(THIRD))
    assert made.to_pylist() == expected
    assert made.schema == parse_ddl(THIRD)


@pytest.mark.parametrize(
    ("function", "row", "why"),
    [
        (none, 0, "returned None"),
        (lambda record: [record], 0, "returned a list"),
        (lambda record: {"key": 1 // record["v"], "text": ""}, 1, "ZeroDivisionError"),
        (lambda record: {"key": "a", "text": None if record["v"] == 7 else ""}, 2, "text"),
        (lambda record: {"key": "a", "text": "", "more": 1}, 0, "more"),
        (lambda record: {"text": record["v"]}, 0, "text"),
    ],
)
def test_what_fails_names_the_row(function, row, why, monkeypatch):
    """A function that raises, and records that do not fit."""
    monkeypatch.setattr("atoll.depot.migration._loaded", lambda _: function)
    old = batch(FIRST, [{"v": 3}, {"v": 0}, {"v": 7}])
    with pytest.raises(NotMigratedError, match=why) as caught:
        migrate(old, [DepotMigration("m", FIRST, THIRD, b"m")], parse_ddl(THIRD))
    assert caught.value.row == row


def opened(folder, ddl, migrations=()):
    """A depot of three partitions."""
    return Depot(folder, DepotSpec("d", parse_ddl(ddl), 3, migrations=migrations))


@pytest.mark.parametrize("seed", range(3))
def test_any_range_read_after_any_history(tmp_path, seed):
    """Appends under four schemas in turn, openings in between, each range against plain Python."""
    drawn = random.Random(seed)
    text = DepotMigration("text", WIDER, SECOND, pickled(to_text))
    rename = DepotMigration("rename", SECOND, THIRD, pickled(renamed))
    migrations = ()
    kept = {0: [], 1: [], 2: []}
    for ddl, new in ((FIRST, None), (WIDER, None), (SECOND, text), (THIRD, rename)):
        migrations = (*migrations, new) if new else migrations
        for _ in range(drawn.randint(1, 2)):
            with opened(tmp_path, ddl, migrations) as depot:
                migrations = depot.migrations
                for _ in range(drawn.randint(0, 4)):
                    rows = [_row(ddl, drawn) for _ in range(drawn.randint(1, 6))]
                    for partition, (start, end) in depot.append(rows).offsets.items():
                        made = depot.read(partition, start, end).to_pylist()
                        kept[partition] += [_present(ddl, row) for row in made]
    reader = DepotReader(tmp_path, parse_ddl(THIRD), migrations=migrations)
    assert list(reader.end_offsets()) == [len(rows) for rows in kept.values()]
    for partition, rows in kept.items():
        start = drawn.randint(0, len(rows))
        end = drawn.randint(start, len(rows))
        for low, high in ((0, len(rows)), (start, end)):
            assert reader.read(partition, low, high).to_pylist() == rows[low:high]


def _row(ddl, drawn):
    names = parse_ddl(ddl).names
    values = {"k": "abc"[drawn.randrange(3)], "v": drawn.randrange(9), "w": drawn.randrange(9)}
    if ddl == SECOND:
        values["v"] = str(values["v"])
    if ddl == THIRD:
        values = {"key": values["k"], "text": str(values["v"])}
    return {name: values[name] for name in names}


def _present(ddl, row):
    """What a record of a schema is under the last one."""
    if ddl == THIRD:
        return row
    text = row["v"] if ddl == SECOND else f"<{row['v']}>"
    return {"key": row["k"], "text": f"{text}/{row.get('w') or 0}"}


def test_a_failing_record_is_named_by_partition_and_offset(tmp_path):
    """Also in the middle of a block that is read in part."""
    with Depot(tmp_path, DepotSpec("d", parse_ddl(FIRST))) as depot:
        depot.append([{"k": "a", "v": v} for v in (1, 2)])
        depot.append([{"k": "a", "v": v} for v in (3, 4, 5, 6)])
    divided = DepotMigration("by-five", FIRST, HALVES, pickled(divide))
    with Depot(tmp_path, DepotSpec("d", parse_ddl(HALVES), migrations=(divided,))) as depot:
        assert depot.read(0, 1, 4).column("v").to_pylist() == [1 / -3, 1 / -2, 1 / -1]
        with pytest.raises(UserCodeError, match="partition 0, offset 4: ZeroDiv") as caught:
            depot.read(0, 3, 6)
    assert (caught.value.context["offset"], caught.value.context["migration"]) == (4, "by-five")


def divide(record):
    """Fails for 5."""
    return {"k": record["k"], "v": 1 / (record["v"] - 5)}


def test_an_empty_segment_of_another_schema_is_no_hindrance(tmp_path):
    """A version that opened the depot and died before it was deployed; records would be."""
    with opened(tmp_path, FIRST) as depot:
        depot.append([{"k": "a", "v": 1}] * 3)
    text = DepotMigration("text", FIRST, SECOND, pickled(to_text))
    with opened(tmp_path, SECOND, (text,)) as depot:
        until = depot.migrations[0].until
    with opened(tmp_path, FIRST) as depot:
        depot.append({"k": "b", "v": 2})
    with opened(tmp_path, SECOND, (text,)) as depot:
        assert depot.migrations[0].until != until
        assert sum(depot.end_offsets()) == 4
        depot.append({"k": "c", "v": "three"})
    with pytest.raises(DepotError, match="another declaration"):
        opened(tmp_path, FIRST)
