"""Appends of a producer that come again after the depot has got another schema."""

from __future__ import annotations

import pickle
import random

import msgspec
import pyarrow as pa
import pyarrow.parquet
import pytest
from depot_samples import all_rows

from atoll.ddl import parse_ddl, to_ddl
from atoll.depot import Depot, HashBy, Producer, Retention
from atoll.depot.migration import DepotMigration
from atoll.depot.spec import DepotSpec
from atoll.errors import FencedError, ProducerError, RecordsRefusedError
from atoll.server.intake import batches_of_json

FIRST, WIDER, CENTS, HALVES, NAMED = (
    to_ddl(parse_ddl(each))
    for each in (
        "k string, v long",
        "k string, v long, w long",
        "key string, cents long NOT NULL",
        "k string, v double",
        "key string, cents long NOT NULL, name string NOT NULL",
    )
)
SENT = [{"k": f"k{n % 5}", "v": n} for n in range(9)]
ONE = Producer("p", 1)


def to_cents(record):
    """Other names, other values."""
    return {"key": record["k"], "cents": 100 * record["v"]}


def to_halves(record):
    """The same names, another type: records of then fit the new schema, too."""
    return {"k": record["k"], "v": record["v"] / 2}


def to_named(record):
    """A second one."""
    return {**record, "name": f"<{record['key']}>"}


MIGRATED = {
    CENTS: [("cents", FIRST, CENTS, to_cents)],
    HALVES: [("halves", FIRST, HALVES, to_halves)],
    NAMED: [("cents", FIRST, CENTS, to_cents), ("named", CENTS, NAMED, to_named)],
}
"""By the present schema what records of the first one go through."""


def made(ddl, records):
    """The records as the present schema has them."""
    for *_, function in MIGRATED.get(ddl, []):
        records = [function(each) for each in records]
    return records


@pytest.fixture
def opened(tmp_path):
    """Opens the depot under a schema, after closing it."""
    depots = []

    def open_as(ddl, partition_by=None, partitions=3, **options):
        if depots:
            depots[-1].close()
        schema = parse_ddl(ddl)
        migrations = ()
        for name, before, after, function in MIGRATED.get(ddl, []):
            known = depots[-1].migrations if depots else ()
            until = next((each.until for each in known if each.id == name), None)
            known_migration = DepotMigration(name, before, after, pickle.dumps(function), until)
            migrations = (*migrations, known_migration)
        partitioner = HashBy(partition_by or schema.names[0])
        spec = DepotSpec(
            "depot", schema, partitions, partitioner=partitioner, migrations=migrations, **options
        )
        depots.append(Depot(tmp_path / "depot", spec))
        return depots[-1]

    yield open_as
    for depot in depots:
        depot.close()


def check_same(depot, first, again):
    """The answer is the first one's, and nothing more is stored."""
    assert (again.duplicate, again.count, again.offsets) == (True, len(SENT), first.offsets)
    assert sum(map(len, all_rows(depot))) == len(SENT)


@pytest.mark.parametrize("ddl", [WIDER, *MIGRATED])
@pytest.mark.parametrize("partitions", [1, 3])
def test_it_is_recognised_as_it_was_sent_and_as_it_is_now(opened, ddl, partitions):
    """Rows and Arrow data; a later append is stored, and then both are known still."""
    first = opened(FIRST, partitions=partitions).append(SENT, producer=ONE)
    depot = opened(ddl, partitions=partitions)
    for records in (SENT, made(ddl, SENT)):
        check_same(depot, first, depot.append(records, producer=ONE))
        check_same(depot, first, depot.append(iter(records), producer=ONE))
        check_same(depot, first, depot.append(pa.Table.from_pylist(records), producer=ONE))
    extra = made(ddl, [{"k": "x", "v": 77}])
    assert not depot.append(extra, producer=Producer("p", 2)).duplicate
    assert depot.append(extra, producer=Producer("p", 2)).duplicate
    assert depot.append(SENT, producer=ONE).offsets == first.offsets
    assert sum(map(len, all_rows(depot))) == len(SENT) + 1


@pytest.mark.parametrize("ddl", list(MIGRATED))
@pytest.mark.parametrize("seed", range(4))
def test_other_records_are_refused_and_told_why(opened, ddl, seed):
    """One changed, left out, doubled or in another order; of then, and of now."""
    chance = random.Random(seed)
    opened(FIRST).append(SENT, producer=ONE)
    depot = opened(ddl)
    at = chance.randrange(len(SENT) - 1)
    changed = {**SENT[at], "v": SENT[at]["v"] + 1}
    others = [
        [*SENT[:at], changed, *SENT[at + 1 :]],
        [*SENT[:at], *SENT[at + 1 :]],
        [*SENT[:at], SENT[at], *SENT[at:]],
        [],
    ]
    for records in others:
        for version in (records, made(ddl, records)):
            with pytest.raises((ProducerError, RecordsRefusedError), match="before migration"):
                depot.append(version, producer=ONE)
    with pytest.raises((ProducerError, RecordsRefusedError), match="before migration"):
        depot.append(SENT[::-1], producer=ONE)
    assert sum(map(len, all_rows(depot))) == len(SENT)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("ddl", [CENTS, HALVES])
def test_files_and_bodies(opened, tmp_path, ddl, ending):
    """Whatever brings the records."""
    path = tmp_path / f"sent.{ending}"
    depot = opened(FIRST)
    rows = depot.codec.to_rows(depot.codec.from_rows(SENT).batch)
    lines = msgspec.json.Encoder().encode_lines(rows)
    if ending == "jsonl":
        path.write_bytes(lines)
    elif ending == "csv":
        path.write_text("k,v\n" + "".join(f"{each['k']},{each['v']}\n" for each in SENT))
    else:
        pyarrow.parquet.write_table(pa.Table.from_pylist(SENT), path)
    first = depot.append_file(path, producer=ONE)
    depot = opened(ddl)
    check_same(depot, first, depot.append_file(path, producer=ONE))
    body = b"[" + b",".join(lines.split()) + b"]"
    batches = batches_of_json(depot.codec_for(ONE), body)
    check_same(depot, first, depot.append_stream(batches, producer=ONE))


def test_it_may_lie_elsewhere_now(opened):
    """Spread by another field, the migrated records would go to other depot partitions."""
    first = opened(FIRST).append(SENT, producer=ONE)
    depot = opened(CENTS, partition_by="cents")
    check_same(depot, first, depot.append(made(CENTS, SENT), producer=ONE))


def test_what_is_trimmed_is_recognised_as_it_was_sent(opened):
    """But its records cannot be compared any more."""
    first = opened(FIRST).append(SENT, producer=ONE)
    depot = opened(CENTS, retention=Retention(records_max=0))
    assert depot.trim() == 1
    assert depot.append(SENT, producer=ONE).offsets == first.offsets
    with pytest.raises(ProducerError, match="before migration"):
        depot.append(made(CENTS, SENT), producer=ONE)


def test_refused_records_count_only_where_they_are_not_kept(opened):
    """An append that kept the good ones is known by these."""
    bad = [*SENT, {"k": "bad", "v": "no number"}]
    first = opened(FIRST).append(bad, "keep", producer=ONE)
    depot = opened(CENTS)
    check_same(depot, first, depot.append(bad, "keep", producer=ONE))
    with pytest.raises(RecordsRefusedError, match="before migration"):
        depot.append(bad, producer=ONE)


def test_only_its_writer_answers(opened):
    """Another process may have taken over, and know more."""
    opened(FIRST).append(SENT, producer=ONE)
    depot = opened(CENTS)
    with Depot(depot.folder, depot.spec), pytest.raises(FencedError):
        depot.append(SENT, producer=ONE)
