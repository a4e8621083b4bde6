"""Where records go: hash, turn, function; the same place however they come."""

from __future__ import annotations

import datetime as dt
import zlib
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.codec.keys.elements import encode_element
from atoll.codec.records.codec import RecordCodec
from atoll.ddl import parse_ddl
from atoll.depot import Custom, DepotSpec, HashBy, Partitioner, Random
from atoll.depot.partitioner import Placer
from atoll.errors import DeclarationError, DepotError, UserCodeError
from atoll.schema import Scalar

HASHED: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "string": ("str", st.text(max_size=4)),
    "long": ("int", st.integers(-(2**63), 2**63 - 1)),
    "byte": ("int", st.integers(-128, 127)),
    "boolean": ("bool", st.booleans()),
    "double": ("float", st.floats(allow_nan=False)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "binary": ("bytes", st.binary(max_size=4)),
    "date": ("date", st.dates()),
    "decimal(38, 2)": ("decimal", st.decimals(-(10**35), 10**35, places=2)),
    "timestamp": ("datetime", st.datetimes(timezones=st.just(dt.UTC))),
}


def placer(partitioner: Partitioner, schema: pa.Schema, partitions: int) -> Placer:
    """A placer of a depot."""
    return Placer(partitioner, schema, partitions, "depot")


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(sorted(HASHED)), st.sampled_from([1, 2, 3, 8]))
def test_hash_is_the_key_encodings_crc(data: st.DataObject, kind: str, partitions: int) -> None:
    """Few rows, many rows and records all go where the CRC of the key encoding says."""
    scalar_kind, strategy = HASHED[kind]
    schema = parse_ddl(f"h {kind}, n long")
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=40))
    codec = RecordCodec(schema)
    checked = codec.from_rows([{"h": value, "n": n} for n, value in enumerate(values)])
    stored = checked.batch.column("h").to_pylist()
    scalar = Scalar(scalar_kind, optional=True)
    expected = [zlib.crc32(encode_element(value, scalar)) % partitions for value in stored]
    one = placer(HashBy("h"), schema, partitions)
    divided = one.divide(checked.batch)
    assert {n: p for p, batch in divided for n in batch.column("n").to_pylist()} == dict(
        enumerate(expected)
    )
    records = one.divide_records(checked.batch, checked.records or [])
    assert [(p, [r.f1 for r in part]) for p, part in records] == [
        (p, batch.column("n").to_pylist()) for p, batch in divided
    ]
    singles = [one.divide(checked.batch.slice(n, 1))[0][0] for n in range(len(values))]
    assert singles == expected


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 2, 7, 1000])
def test_random_is_even(partitions: int, rows: int) -> None:
    """Records are spread evenly, within one call and over calls of single records."""
    schema = parse_ddl("v long")
    one = placer(Random(), schema, partitions)
    batch = pa.record_batch({"v": range(rows)}, schema=schema)
    counts: Counter[int] = Counter()
    for partition, part in one.divide(batch):
        values = part.column("v").to_pylist()
        assert values == sorted(values)
        counts[partition] += len(values)
    assert sum(counts.values()) == rows
    assert max(counts.values()) - min(counts[p] for p in range(partitions)) <= 1
    singles = Counter(one.divide(batch.slice(0, 1))[0][0] for _ in range(partitions * 5))
    assert set(singles.values()) == {5}


def test_custom() -> None:
    """A function sees the record as a dict and the number of depot partitions."""
    schema = parse_ddl("v long, m map<string,int>")
    seen: list[tuple[dict[str, Any], int]] = []

    def choose(row: Any, partitions: int) -> int:
        seen.append((row, partitions))
        return int(row["v"]) % partitions

    batch = RecordCodec(schema).from_rows([{"v": n, "m": {"a": n}} for n in range(5)]).batch
    divided = placer(Custom(choose), schema, 3).divide(batch)
    assert [(p, part.column("v").to_pylist()) for p, part in divided] == [
        (0, [0, 3]),
        (1, [1, 4]),
        (2, [2]),
    ]
    assert seen[1] == ({"v": 1, "m": {"a": 1}}, 3)


@pytest.mark.parametrize("chosen", [-1, 3, "1", 1.0, None])
def test_custom_that_chooses_nonsense(chosen: Any) -> None:
    """An index that is none is refused by value."""
    schema = parse_ddl("v long")
    batch = RecordCodec(schema).from_rows([{"v": 1}]).batch
    with pytest.raises(DepotError, match="no depot partition"):
        placer(Custom(lambda *_: chosen), schema, 3).divide(batch)


def test_custom_that_raises() -> None:
    """What the user's function raises is told as the user's."""
    schema = parse_ddl("v long")
    batch = RecordCodec(schema).from_rows([{"v": 1}]).batch
    with pytest.raises(UserCodeError, match="ZeroDivisionError"):
        placer(Custom(lambda *_: 1 // 0), schema, 3).divide(batch)


@pytest.mark.parametrize("field", ["zz", "t", "s"])
def test_hash_of_what_cannot_be_hashed(field: str) -> None:
    """Unknown and nested fields are refused at declaration."""
    with pytest.raises(DeclarationError):
        DepotSpec("d", parse_ddl("t array<int>, s struct<a: int>"), 2, HashBy(field))


@pytest.mark.parametrize("options", [{"partitions": 0}, {"partitions": 5000}])
def test_partition_counts(options: dict[str, int]) -> None:
    """A depot has from one to some thousand partitions."""
    with pytest.raises(DeclarationError):
        DepotSpec("d", parse_ddl("v long"), **options)
    with pytest.raises(DeclarationError):
        DepotSpec("d", parse_ddl("v long"), segment_bytes_max=10)


def test_decimals_hash_by_value() -> None:
    """The scale of a decimal does not move it."""
    scalar = Scalar("decimal", optional=True)
    assert encode_element(Decimal("1.0"), scalar) == encode_element(Decimal("1.00"), scalar)
