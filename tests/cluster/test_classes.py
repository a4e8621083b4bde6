"""Schemas as Python types: objects go in, functions see objects, and declared types come out."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple, TypedDict

import msgspec
import pyarrow as pa
import pytest
from pydantic import BaseModel

import atoll
from atoll import agg, start
from atoll.codec.spellings import columns_of, node_of
from atoll.ddl import to_ddl
from atoll.errors import DeclarationError, RecordsRefusedError, UsageError, UserCodeError
from atoll.schema import as_node, from_json, to_json
from atoll.testing import TopologyTestDriver

BEGIN = start.beginning()
ID = uuid.UUID(int=7)
AT = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


class Size(enum.StrEnum):
    """A member is its text."""

    SMALL = "small"
    LARGE = "large"


class Place(NamedTuple):
    """A struct within another."""

    x: int
    y: int


@dataclass
class Sale:
    """A record with one of everything."""

    id: uuid.UUID
    user: str
    at: dt.datetime
    price: Annotated[Decimal, "decimal(10, 2)"]
    size: Size
    place: Place
    tags: set[str]
    counts: dict[str, int]
    note: str | None = None


class Typed(TypedDict):
    """As a dict."""

    user: str
    n: int


class Named(NamedTuple):
    """As a tuple."""

    user: str
    n: int


class Packed(msgspec.Struct):
    """As msgspec has it."""

    user: str
    n: int


class Model(BaseModel):
    """As pydantic has it."""

    user: str
    n: int


@dataclass
class Plain:
    """As the standard library has it."""

    user: str
    n: int


@dataclass
class Total:
    """A value of a PState."""

    n: int
    last: uuid.UUID


CLASSES = [Typed, Named, Packed, Model, Plain]


def sale(user="ann", **others):
    """One record."""
    counts, tags = {"a": 1}, {"b", "a"}
    given = {"id": ID, "user": user, "at": AT, "price": Decimal("1.50"), "size": Size.LARGE}
    return Sale(**{**given, "place": Place(1, 2), "tags": tags, "counts": counts, **others})


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_kind_of_class_is_a_depot_a_step_and_a_state(kind):
    """Its objects are appended, seen, emitted, kept and read."""
    module = atoll.Module("classes")
    depot = module.depot("depot", kind)
    out = module.depot("out", kind)
    mb = module.microbatch("mb", vnode_count=1)
    kept = mb.pstate("kept", dict[str, kind])
    seen = []

    def more(row):
        seen.append(row)
        n = row["n"] if kind is Typed else row.n
        return kind(user="eve", n=n + 1)

    def keep(row, kept):
        user = row["user"] if kind is Typed else row.user
        kept[user] = row
        before = kept[user]
        assert (before["user"], type(before)) == (user, dict)

    rows = mb.source(depot, start_from=BEGIN).map(more, emits=kind).where("n > 0")
    rows.process(keep, key="user", states=[kept])
    rows.append_to(out)
    with TopologyTestDriver(module, engine="inline") as driver:
        wanted = kind(user="ann", n=1)
        receipt = driver.depot(depot).append([wanted, wanted])
        assert driver.depot(depot).append(wanted).count == 1
        driver.app.wait(receipt)
        expected = kind(user="eve", n=2)
        assert seen[0] == wanted
        assert type(seen[0]) is type(wanted)
        assert driver.pstate(kept).get("eve") == expected
        assert driver.pstate("kept").get("eve") == {"user": "eve", "n": 2}
        assert driver.pstate(kept).get() == {"eve": expected}
        assert driver.pstate(kept).get("none") is None
        table = pa.concat_tables(
            driver.depot(out).read(part, 0, end)
            for part, end in enumerate(driver.depot(out).end_offsets())
        )
        assert atoll.rows(table, kind)[0] == expected


def test_values_of_all_types_come_back_as_they_were():
    """UUIDs, members of enumerations, sets, tuples, dicts and decimals of a given width."""
    module = atoll.Module("values")
    depot = module.depot("depot", Sale, is_global=True)
    mb = module.microbatch("mb", vnode_count=1)
    totals = mb.pstate("totals", dict[uuid.UUID, Total])
    tags = mb.pstate("tags", dict[str, set[str]])
    seen = []

    def add(row, totals):
        seen.append(row)
        before = totals.get(row.id, {"n": 0})
        totals[row.id] = Total(before["n"] + 1, row.id)

    rows = mb.source(depot, start_from=BEGIN)
    rows.process(add, key="id", states=[totals])
    words = rows.flat_map(
        lambda row: [{"user": row.user, "tag": tag} for tag in row.tags],
        emits="user string, tag string",
    )
    words.aggregate(tags["user"], agg.collect_set("tag"))
    with TopologyTestDriver(module, engine="inline") as driver:
        given = [sale(), sale(note="x"), {**sale().__dict__, "id": str(ID)}, sale().__dict__]
        driver.app.wait(driver.depot("depot").append(given))
        assert seen == [sale(), sale(note="x"), sale(), sale()]
        assert driver.pstate(totals).get(ID) == Total(4, ID)
        assert driver.pstate("totals").get(str(ID)) == {"n": 4, "last": str(ID)}
        assert driver.pstate(totals).get() == {ID: Total(4, ID)}
        assert driver.pstate(tags).get("ann") == {"a", "b"}
        assert list(driver.pstate("tags").get("ann")) == ["a", "b"]
        with pytest.raises(RecordsRefusedError, match="user"):
            driver.depot("depot").append(sale(user=None))


def test_what_is_emitted_must_have_what_the_class_has():
    """A field that may not be None is not left out."""
    module = atoll.Module("emitted")
    depot = module.depot("depot", Plain)
    mb = module.microbatch("mb", vnode_count=1)
    rows = mb.source(depot, start_from=BEGIN).map(lambda row: {"user": row.user}, emits=Plain)
    rows.aggregate(mb.pstate("n", int), agg.count())
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot(depot).append(Plain("a", 1))
        with pytest.raises(atoll.AtollError) as raised:
            driver.microbatch()
        assert "no value for column n" in str(raised.value)
    assert UserCodeError.code == "E-USER-CODE"


def test_a_declaration_asks_only_what_it_declared():
    """Another module's, another version's, and what is none."""
    module, other = atoll.Module("mine"), atoll.Module("other")
    depot = module.depot("depot", Plain)
    mb = module.microbatch("mb", vnode_count=1)
    counts = mb.pstate("counts", dict[str, int])
    mb.source(depot, start_from=BEGIN).aggregate(counts["user"], agg.sum("n"))
    theirs = other.microbatch("mb").pstate("counts", dict[str, int])
    newer = atoll.Module("mine").microbatch("mb").pstate("counts", dict[str, str])
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.app.topology(mb).wait(driver.depot(depot).append(Plain("a", 5)))
        assert driver.pstate(counts).get("a") == 5
        assert driver.pstate(counts).get("b", default=0) == 0
        assert driver.pstate(counts).as_of(0).get() == {}
        assert [each.after for each in driver.changes(counts)] == [5]
        with pytest.raises(UsageError, match="declared in module 'other'"):
            driver.pstate(theirs)
        with pytest.raises(UsageError, match="deployed as Map"):
            driver.pstate(newer)
        with pytest.raises(UsageError, match="no part of a module"):
            driver.depot(7)
        with pytest.raises(UsageError, match="no part of module 'mine'"):
            driver.depot(other.depot("depot", Plain))


def test_queries_take_objects():
    """Where a parameter is a class."""
    module = atoll.Module("asked")
    asked = module.query("sum", pair=Plain, more=list[int])
    asked.map(lambda row: {"s": row.pair["n"] + sum(row.more)}, emits="s long").returns("s")
    with TopologyTestDriver(module, engine="inline") as driver:
        assert driver.app.query("sum", pair=Plain("a", 3), more=[4]) == 7
        assert driver.app.query("sum", pair={"user": "a", "n": 3}, more=(1, 2)) == 6


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        (Plain, "user STRING NOT NULL, n BIGINT NOT NULL"),
        ("user string, n long", "user STRING, n BIGINT"),
        (pa.schema([pa.field("n", pa.int32(), nullable=False)]), "n INT NOT NULL"),
    ],
)
def test_columns_have_two_spellings(given, columns):
    """And Arrow's."""
    assert to_ddl(columns_of(given)) == columns


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (dict[str, list[int]], "Map(str, List(int))"),
        (dict[str, set[uuid.UUID]], "Map(str, Set(str))"),
        (
            "map<string, struct<n: long, at: timestamp>>",
            "Map(str, Struct(n=int | None, at=datetime | None))",
        ),
        ("n long NOT NULL, tags array<string>", "Struct(n=int, tags=List(str))"),
        ("long", "int"),
        (pa.map_(pa.string(), pa.float64()), "Map(str, float)"),
        (Literal["a", "b"], "str"),
        (Total, "Struct(n=int, last=str)"),
        (Annotated[int, "short"] | None, "int | None"),
    ],
)
def test_states_have_two_spellings(given, shown):
    """The same schema, however it is written; what is kept of it is the same."""
    node = node_of(given)
    assert str(node) == shown
    assert from_json(to_json(node)) == node


@dataclass
class Tree:
    """Holds itself."""

    below: list[Tree]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (list, "list is no type"),
        (Tree, "holds itself"),
        (Literal["a", 1], "no type"),
        (int | str, "union of several"),
        (object, "object is no type"),
        (dict[Plain, int], "must be a scalar"),
        ("interval", "interval"),
    ],
)
def test_types_that_cannot_be(given, problem):
    """Each is named."""
    with pytest.raises(DeclarationError, match=problem):
        node_of(given)
    with pytest.raises(DeclarationError, match=r"no schema|no type|itself|interval"):
        columns_of(given)
    assert as_node(int).kind == "int"
