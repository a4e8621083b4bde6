"""State as Arrow and Parquet: read back by other tools it is what ``get()`` says."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import atoll
from atoll import List, Map, Set, Struct, agg, start
from atoll.errors import UsageError
from atoll.schema import to_json
from atoll.testing import TopologyTestDriver
from atoll.views.export.export import Export

KEYS = 40
DAY = dt.date(2026, 1, 1)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)

SHAPES = {
    "number": (Map(str, int), lambda n: n),
    "text": (Map(int, str), lambda n: f"t{n}"),
    "nested": (Map(str, Map(int, float)), lambda n: {m: m / 2 for m in range(n % 4)}),
    "struct": (
        Map(str, Struct(a=int, at=dt.datetime, tags=List(str))),
        lambda n: {"a": n, "at": NOON + dt.timedelta(seconds=n), "tags": ["x"] * (n % 3)},
    ),
    "list": (Map(dt.date, List(Struct(a=int))), lambda n: [{"a": m} for m in range(n % 3)]),
    "decimal": (Map(str, Decimal), lambda n: Decimal(n) / 4),
    "bytes": (Map(str, bytes), lambda n: bytes([n])),
    "set": (Map(str, Set(int)), lambda n: set(range(n % 5))),
    "deep set": (Map(str, Map(int, Set(str))), lambda n: {1: {"a", f"b{n}"}, 2: {"c"}}),
}
"""Each schema, and the value of a key."""


def holding(schema, value):
    """A module that keeps such values by key: each record writes one, or deletes it."""
    module = atoll.Module("kept")
    numbers = module.depot("numbers", "str string, int long, date date, gone boolean")
    mb = module.microbatch("mb", vnode_count=8)
    state = mb.pstate("state", schema, track_size=not schema.value.leaf)

    def keep(row, state):
        key = getattr(row, schema.key.kind)
        if row.gone:
            state.pop(key, None)
        elif isinstance(schema.value, Map | Set):
            fill(state[key], value(row.int))
        else:
            state[key] = value(row.int)

    source = mb.source(numbers, start_from=start.beginning())
    source.process(keep, key=schema.key.kind, states=[state])
    return module


def fill(handle, value):
    """Write a nested value element by element."""
    if isinstance(value, set):
        for element in value:
            handle.add(element)
        return
    for key, item in value.items():
        if isinstance(item, set):
            fill(handle[key], item)
        else:
            handle[key] = item


def write(driver, *numbers, gone=False):
    """One microbatch."""
    rows = [{"str": f"k{n}", "int": n, "date": DAY + dt.timedelta(days=n)} for n in numbers]
    driver.depot("numbers").append([{**row, "gone": gone} for row in rows])
    driver.microbatch()


def plain(value):
    """A value without classes of its own."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset) or type(value).__name__ == "SortedSet":
        return sorted(value)
    return [plain(item) for item in value] if isinstance(value, list) else value


def expected(schema, state):
    """All rows that the PState comes to, by its schema."""
    found = []

    def walk(node, value, keys):
        if isinstance(node, Map):
            for key, item in value.items():
                walk(node.value, item, (*keys, key))
        elif not (isinstance(node, Set) and not value):
            found.append((*keys, plain(value)))

    walk(schema, state, ())
    return sorted(found, key=repr)


def read_back(table):
    """The rows of a table, sorted alike."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.mark.parametrize("name", SHAPES)
def test_an_export_read_back_is_what_get_says(tmp_path, name):
    """By pyarrow from Arrow and Parquet, and by DuckDB; keys and values with their own types."""
    schema, value = SHAPES[name]
    with TopologyTestDriver(holding(schema, value)) as driver:
        write(driver, *range(KEYS))
        write(driver, *random.Random(1).sample(range(KEYS), 9), gone=True)
        pstate = driver.pstate("state")
        wanted = expected(schema, pstate.get())
        assert len(wanted) > 10
        export = pstate.export()
        assert read_back(export.to_table()) == wanted
        assert export.write(tmp_path / "state.parquet") == len(wanted)
        assert read_back(pq.read_table(tmp_path / "state.parquet")) == wanted
        assert export.write(tmp_path / "state.arrow") == len(wanted)
        with pa.ipc.open_file(tmp_path / "state.arrow") as reader:
            assert read_back(reader.read_all()) == wanted
        counted = duckdb.sql(f"SELECT count(*) FROM '{tmp_path / 'state.parquet'}'").fetchall()
        assert counted == [(len(wanted),)]
        if name not in {"decimal", "struct"}:  # DuckDB's own types for decimals and time zones
            told = duckdb.sql(f"SELECT * FROM '{tmp_path / 'state.parquet'}'").fetchall()
            assert sorted(told, key=repr) == wanted


def counting(options=None):
    """Counts by word, and keeps two kinds of values of each; one number never written."""
    module = atoll.Module("counting")
    words = module.depot("words", "w string, n long", partition_by="w", partitions=1)
    mb = module.microbatch("mb", vnode_count=4, options=options)
    counts = mb.pstate("counts", Map(str, int))
    seen = mb.pstate("seen", Map(str, Struct(last=int, numbers=Set(int))))
    mb.pstate("never", int, initial=7)

    def note(row, counts, seen):
        if row.n < 0:
            counts.pop(row.w, None)
            seen[row.w]["numbers"].discard(-row.n)
            return
        counts[row.w] = row.n
        seen[row.w]["last"] = row.n
        seen[row.w]["numbers"].add(row.n)

    source = mb.source(words, start_from=start.beginning())
    source.process(note, key="w", states=[counts, seen])
    return module


def say(driver, **numbers):
    """One microbatch."""
    driver.depot("words").append([{"w": w, "n": n} for w, n in numbers.items()])
    driver.microbatch()


def test_an_export_is_of_one_commit_while_others_follow(tmp_path):
    """Whole over all vnodes, also when they were written again before they were read."""
    with TopologyTestDriver(counting()) as driver:
        say(driver, a=1, b=1, c=1, d=1)
        pstate = driver.pstate("counts")
        export = pstate.export()
        batches = export.batches()
        say(driver, a=2, b=2, c=2, d=2, e=2)
        table = pa.Table.from_batches(batches)
        assert sorted(table.column("value").to_pylist()) == [1, 1, 1, 1]
        assert export.microbatch == 1
        assert read_back(pstate.as_of(1).export().to_table()) == read_back(table)
        assert sorted(pstate.export().to_table().column("value").to_pylist()) == [2] * 5


def test_the_metadata_say_what_it_is_and_of_when(tmp_path):
    """In the file, for whoever gets it later."""
    with TopologyTestDriver(counting()) as driver:
        say(driver, a=1)
        file = tmp_path / "seen.parquet"
        driver.pstate("seen").export(field="last").write(file)
        told = {k.decode(): v.decode() for k, v in pq.read_schema(file).metadata.items()}
        about = {name.removeprefix("atoll."): text for name, text in told.items()}
        assert (about["module"], about["topology"], about["pstate"]) == ("counting", "mb", "seen")
        assert (about["kind"], about["field"], about["microbatch"]) == ("state", "last", "1")
        assert about["timeline"] == "0"
        assert json.loads(about["schema"]) == to_json(driver.pstate("seen").spec.node)


def test_several_kinds_of_values_are_exported_one_by_one():
    """Which there are is in the hint; a set below a key is a list."""
    with TopologyTestDriver(counting()) as driver:
        say(driver, a=1)
        say(driver, a=3)
        seen = driver.pstate("seen")
        with pytest.raises(UsageError, match="several kinds of values") as raised:
            seen.export()
        assert raised.value.hint == "name the field to export: last, numbers"
        with pytest.raises(UsageError, match="has no field 'none'"):
            seen.export(field="none")
        assert seen.export(field="last").to_table().to_pylist() == [{"key": "a", "value": 3}]
        assert seen.export(field="numbers").to_table().to_pylist() == [
            {"key": "a", "elements": [1, 3]}
        ]


def test_what_was_never_written_is_its_initial_value():
    """As readers see it; an empty PState has columns and no rows."""
    with TopologyTestDriver(counting()) as driver:
        assert driver.pstate("never").export().to_table().to_pylist() == [{"value": 7}]
        empty = driver.pstate("counts").export().to_table()
        assert (empty.num_rows, empty.column_names) == (0, ["key", "value"])


def test_changes_are_what_each_commit_wrote_and_deletes_are_told_as_such(tmp_path):
    """Put on the state before, they make the state after."""
    with TopologyTestDriver(counting()) as driver:
        say(driver, a=1, b=1)
        say(driver, a=2, c=2)
        say(driver, b=-1)
        say(driver, d=4)
        counts = driver.pstate("counts")
        export = counts.export_changes(1, 3)
        assert read_back(export.to_table()) == [
            (2, False, "a", 2),
            (2, False, "c", 2),
            (3, True, "b", None),
        ]
        assert export.schema.metadata[b"atoll.after_microbatch"] == b"1"
        assert export.schema.metadata[b"atoll.microbatch"] == b"3"
        file = tmp_path / "changes.parquet"
        counts.export_changes(1).write(file)
        state = dict(counts.as_of(1).get())
        for _, deleted, key, value in duckdb.sql(f"SELECT * FROM '{file}'").fetchall():
            state.pop(key, None) if deleted else state.update({key: value})
        assert state == counts.get()
        elements = driver.pstate("seen").export_changes(2, field="numbers").to_table()
        assert {"microbatch": 3, "deleted": True, "key": "b", "element": 1} in elements.to_pylist()
        assert driver.pstate("seen").export_changes(2, field="last").to_table().num_rows == 1


def test_ranges_that_cannot_be_are_refused():
    """Not kept, not committed, or the wrong way round."""
    options = {"pstate.history.microbatches": 2, "pstate.history.seconds": 0}
    with TopologyTestDriver(counting(options)) as driver:
        for n in range(6):
            say(driver, a=n)
        counts = driver.pstate("counts")
        for after, up_to in ((1, None), (None, 99), (99, None)):
            with pytest.raises(UsageError, match="cannot be read"):
                counts.export_changes(after, up_to)
        with pytest.raises(UsageError, match="no microbatch is after 6"):
            counts.export_changes(6, 5)
        assert counts.export_changes(5).to_table().column("value").to_pylist() == [5]


def test_a_commit_that_was_dropped_while_it_was_exported_is_named(tmp_path):
    """With the option to raise; no half of a file is left."""
    options = {"pstate.history.microbatches": 2, "pstate.history.seconds": 0}
    options["pstate.checkpoint.interval.commits"] = 2
    with TopologyTestDriver(counting(options)) as driver:
        say(driver, a=1, b=1, c=1, d=1)
        export = driver.pstate("counts").export()
        for n in range(2, 16):
            driver.advance(seconds=60)
            say(driver, a=n, b=n, c=n, d=n)
        with pytest.raises(UsageError, match="was dropped while it was exported") as raised:
            export.write(tmp_path / "late.parquet")
        assert "pstate.history.seconds" in str(raised.value.hint)
        assert list(tmp_path.iterdir()) == []


def test_an_export_is_read_vnode_by_vnode(monkeypatch):
    """The first batch comes before the last vnode is read, and batches are of a bounded size."""
    module = atoll.Module("many")
    numbers = module.depot("numbers", "n long", partition_by="n")
    mb = module.microbatch("mb", vnode_count=8)
    counts = mb.pstate("counts", Map(int, int))
    source = mb.source(numbers, start_from=start.beginning())
    source.aggregate(counts["n"], agg.count())
    monkeypatch.setattr("atoll.views.export.export._BATCH_ROWS", 1_000)
    read = []
    with TopologyTestDriver(module) as driver:
        driver.depot("numbers").append(pa.table({"n": pa.array(range(20_000), pa.int64())}))
        driver.microbatch()
        export = driver.pstate("counts").export()
        rows = export._rows

        def noted():
            for batch in rows():
                read.append(batch.num_rows)
                yield batch

        batches = Export(export.schema, export.microbatch, noted).batches()
        first = next(batches)
        assert first.num_rows == sum(read) < 5_000
        assert sum(batch.num_rows for batch in batches) + first.num_rows == 20_000


def test_other_processes_export_from_the_root_alone(tmp_path):
    """Without the module's code, and while nobody runs it."""
    with TopologyTestDriver(counting(), root=tmp_path / "root") as driver:
        say(driver, a=1, b=2)
    there = atoll.connect(tmp_path / "root", "counting")
    table = there.pstate("counts").export().to_table()
    assert read_back(table) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("file", ["state.csv", "state"])
def test_a_format_that_is_not_clear_is_asked_for(tmp_path, file):
    """Or told to be none."""
    with TopologyTestDriver(counting()) as driver:
        export = driver.pstate("counts").export()
        with pytest.raises(UsageError, match="is not clear"):
            export.write(tmp_path / file)
        with pytest.raises(UsageError, match="nothing is exported as 'csv'"):
            export.write(tmp_path / file, "csv")
        assert export.write(tmp_path / file, "arrow") == 0


def test_values_of_before_a_migration_are_exported_as_those_of_now():
    """State and changes alike: all columns are of the present schema."""

    def version(schema):
        module = atoll.Module("growing")
        words = module.depot("words", "w string, n long", partition_by="w", partitions=1)
        mb = module.microbatch("mb", vnode_count=2, options={"pstate.history.microbatches": 9})
        state = mb.pstate("state", Map(str, schema))
        if schema is str:
            state.migrated("as-text", str)

        def keep(row, state):
            state[row.w] = schema(row.n)

        source = mb.source(words, start_from=start.beginning())
        source.process(keep, key="w", states=[state])
        return module

    with TopologyTestDriver(version(int)) as driver:
        say(driver, a=1, b=2)
        driver.update(version(str))
        say(driver, a=3)
        pstate = driver.pstate("state")
        assert read_back(pstate.export().to_table()) == [("a", "3"), ("b", "2")]
        changes = pstate.export_changes(0).to_table()
        assert changes.schema.field("value").type == pa.string()
        told = read_back(changes)
        assert {(1, False, "a", "1"), (1, False, "b", "2"), (2, False, "a", "3")} <= set(told)
