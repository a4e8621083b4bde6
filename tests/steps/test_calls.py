"""Where rows came from, through Python steps; and rows set aside by them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from atoll.errors import StorageError, UserCodeError
from atoll.steps.rows.flat_map import FlatMap
from atoll.steps.rows.map import Map
from atoll.steps.rows.map_batches import MapBatches
from atoll.topology.rows import ORIGIN, conformed

SCHEMA = pa.schema([("v", pa.int64())])


class Heard:
    """Remembers what was set aside."""

    def __init__(self):
        """Nothing yet."""
        self.rows = []

    def add(self, step, row, origin, error):
        """Remember value, origin and error."""
        self.rows.append((row.v, origin, type(error.__cause__ or error).__name__))


def _batch(*values, first=100):
    batch = pa.RecordBatch.from_pydict({"v": list(values)}, schema=SCHEMA)
    return batch.append_column(ORIGIN, pa.array(range(first, first + len(values)), pa.int64()))


def _run(step, *batches, rejects=None):
    made = list(step.run(iter(batches), SCHEMA, rejects))
    return [(row["v"], row.get(ORIGIN)) for batch in made for row in batch.to_pylist()]


def _half(row):
    assert not hasattr(row, ORIGIN)
    if row.v % 2:
        raise ValueError(row.v)
    return {"v": row.v // 2}


def _times(row):
    for number in range(row.v):
        if number == 3:
            raise ValueError(row.v)
        yield {"v": number}


def test_rows_keep_their_origin():
    """One for one, and each of many that of the row that it was made of."""
    assert _run(Map((), "x.py:1", _half, SCHEMA), _batch(2, 4)) == [(1, 100), (2, 101)]
    many = _run(FlatMap((), "x.py:1", _times, SCHEMA), _batch(2, 0, 1))
    assert many == [(0, 100), (1, 100), (0, 102)]
    plain = conformed(_batch(2, 4), tracked=False)
    assert _run(Map((), "x.py:1", _half, SCHEMA), plain) == [(1, None), (2, None)]


def test_batches_keep_it_when_rows_correspond():
    """As many out as in since the last one; else it is unknown."""

    def same(batches):
        for batch in batches:
            assert batch.schema.names == ["v"]
            yield batch

    def fewer(batches):
        for batch in batches:
            yield batch.slice(1)

    rows = _batch(1, 2), _batch(3, first=200)
    assert _run(MapBatches((), "x.py:1", same, SCHEMA), *rows) == [(1, 100), (2, 101), (3, 200)]
    assert _run(MapBatches((), "x.py:1", fewer, SCHEMA), *rows) == [(2, None)]


def test_errors_know_their_origin():
    """Of the row; of batches the first and last that were taken since the last came out."""
    for step in (
        Map((), "x.py:1", _half, SCHEMA),
        Map((), "x.py:1", lambda row: {"v": "x" if row.v % 2 else 1}, SCHEMA),
    ):
        with pytest.raises(UserCodeError) as caught:
            _run(step, _batch(2, 3, 5))
        assert caught.value.context["origin"] == 101
        assert caught.value.context["row"] == "Row(v=3)"

    def late(batches):
        yield next(batches)
        list(batches)
        raise ValueError

    with pytest.raises(UserCodeError) as caught:
        _run(MapBatches((), "x.py:1", late, SCHEMA), _batch(1), _batch(2), _batch(3, 4, first=7))
    assert caught.value.context["origin"] == (7, 100)


def test_bad_rows_are_set_aside_alone():
    """With what they yielded before they raised, and when what they made does not fit."""
    heard = Heard()
    made = _run(Map((), "x.py:1", _half, SCHEMA), _batch(1, 2, 3, 4), rejects=heard)
    assert made == [(1, 101), (2, 103)]
    assert heard.rows == [(1, 100, "ValueError"), (3, 102, "ValueError")]
    heard = Heard()
    made = _run(FlatMap((), "x.py:1", _times, SCHEMA), _batch(1, 4, 2), rejects=heard)
    assert made == [(0, 100), (0, 102), (1, 102)]
    assert heard.rows == [(4, 101, "ValueError")]
    heard = Heard()
    odd = Map((), "x.py:1", lambda row: {"v": "x" if row.v == 2 else row.v}, SCHEMA)
    assert _run(odd, _batch(1, 2, 3), rejects=heard) == [(1, 100), (3, 102)]
    assert heard.rows == [(2, 101, "ArrowInvalid")]


def test_bad_rows_of_batches_are_found_one_by_one():
    """Those that raise alone; the others go through together."""

    def strict(batches):
        for batch in batches:
            if 3 in batch.column("v").to_pylist():
                raise ValueError
            yield batch

    heard = Heard()
    step = MapBatches((), "x.py:1", strict, SCHEMA)
    assert _run(step, _batch(1, 3, 2), _batch(3, first=7), rejects=heard) == [(1, 100), (2, 102)]
    assert heard.rows == [(3, 101, "ValueError"), (3, 7, "ValueError")]


def test_what_is_not_the_functions_fault_fails():
    """Damage and disks are nobody's row."""

    def full(row):
        raise StorageError("disk full")

    with pytest.raises(StorageError):
        _run(Map((), "x.py:1", full, SCHEMA), _batch(1), rejects=Heard())

    def leave(row):
        raise SystemExit

    with pytest.raises(SystemExit):
        _run(Map((), "x.py:1", leave, SCHEMA), _batch(1), rejects=Heard())
