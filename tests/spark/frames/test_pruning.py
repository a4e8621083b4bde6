"""Spark's optimizer says which columns of what is read are used; in doubt it is all of them."""

from __future__ import annotations

import pytest

from atoll.spark.frames.pruning import columns_used, lasts
from atoll.spark.session import local_session

ROW = "k string, v long, w long"


class Reader:
    """Reads nothing, under a name."""

    def __init__(self, number):
        self.__name__ = f"read {number}"

    def __call__(self, batches):
        """As Spark calls it."""
        yield from ()


def read(number=0, row=ROW):
    """Rows that a reader reads."""
    return local_session(2).range(0, 2, 1, 2).mapInArrow(Reader(number), row)


def used(*frames):
    """The columns used of each."""
    return columns_used(frames, ["read 0", "read 1"])


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda rows: rows.select("k"), {"k"}),
        (lambda rows: rows.selectExpr("v + 1 AS x"), {"v"}),
        (lambda rows: rows.where("w > 1").select("k"), {"k", "w"}),
        (lambda rows: rows.where("w > 1").where("v > 1").selectExpr("w AS k"), {"v", "w"}),
        (lambda rows: rows.selectExpr("*", "v * 2 AS x").select("k", "x"), {"k", "v"}),
        (lambda rows: rows.groupBy("k").agg({"v": "sum"}), {"k", "v"}),
        (lambda rows: rows.selectExpr("k", "explode(array(v)) AS x"), {"k", "v"}),
        (lambda rows: rows.selectExpr("1 AS one"), set()),
        (lambda rows: rows.distinct().select("k"), {"k", "v", "w"}),
        (lambda rows: rows, None),
        (lambda rows: rows.where("v > 1"), None),
        (lambda rows: rows.mapInArrow(lambda batches: batches, ROW).select("k"), None),
        (lambda rows: rows.unionAll(read(1)), None),
    ],
    ids=[
        "one column",
        "an expression",
        "a filter",
        "filters",
        "computed and dropped",
        "grouped",
        "exploded",
        "a constant",
        "distinct rows",
        "all",
        "all of some rows",
        "a function's rows",
        "a union, by position",
    ],
)
def test_columns_used(make, names):
    """None: all of them, so the reader is not named."""
    assert used(make(read())) == ({} if names is None else {"read 0": names})


def test_two_readers_of_a_join():
    """Each has its own columns, the key among them."""
    left, right = read(0), read(1, "k string, x long, y long")
    joined = left.join(right, "k").select("v", "x")
    assert used(joined) == {"read 0": {"k", "v"}, "read 1": {"k", "x"}}


def test_one_reader_in_several_frames():
    """What one of them uses is used; all, when one of them uses all."""
    rows = read()
    assert used(rows.select("k"), rows.select("v")) == {"read 0": {"k", "v"}}
    assert used(rows.select("k"), rows.where("v > 1")) == {}
    assert used(rows.where("v > 1"), rows.select("k")) == {}


def test_a_reader_that_meets_itself():
    """Both places count, whatever Spark calls the columns of the second."""
    rows = read()
    both = rows.select("k").unionAll(rows.where("w > 1").selectExpr("cast(v AS string) AS k"))
    assert used(both) == {"read 0": {"k", "v", "w"}}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda rows: rows.selectExpr("v + 1 AS x").where("x > 2"), True),
        (lambda rows: rows.selectExpr("current_timestamp() AS now"), True),
        (lambda rows: rows.selectExpr("rand() AS x"), False),
        (lambda rows: rows.selectExpr("uuid() AS x").select("x"), False),
        (lambda rows: rows.where("v IN (SELECT id FROM range(3))"), False),
    ],
    ids=["sums", "the time", "chance", "an id", "a subquery"],
)
def test_what_lasts(make, expected):
    """Whatever a later run would compute the same; Spark gives the time to each run anew."""
    assert lasts(make(read())) is expected
