"""Every aggregate in every place: what it comes to there is what plain Python finds.

The table of docs/reference/aggregates.md says which may stand where; here each is declared in each
place, and those that may stand there run.
"""

from __future__ import annotations

import ast
import datetime as dt
import math
import random
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import atoll
from atoll import List, Map, Set, Struct, agg, start
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "aggregates.md"
ROW = "k string, s string, v long, w long, ok boolean, mm map<string, long>, at timestamp"


def held(rows, name="v"):
    """The values of a column that are not null."""
    return [row[name] for row in rows if row[name] is not None]


def longest(current, value):
    """The longer text."""
    return max(current, value, key=len)


def chained(current, value):
    """A number that depends on the order."""
    return (current * 3 + (value or 0)) % 1_000_003


def chain(rows):
    """The same of rows."""
    current = 1
    for row in rows:
        current = chained(current, row["v"])
    return current


def latest(rows):
    """The entries of the maps, the last of each key."""
    return {key: value for row in rows for key, value in (row["mm"] or {}).items()}


def by_text(rows, fold):
    """A map from each text to what its rows come to."""
    texts = sorted({row["s"] for row in rows})
    return {text: fold([row for row in rows if row["s"] == text]) for text in texts}


def ranked(rows, part):
    """The value at a rank."""
    values = sorted(held(rows))
    return values[max(math.ceil(part * len(values)), 1) - 1] if values else None


def spread(rows, lessened, name="w"):
    """The variance of a column, by its definition."""
    values = held(rows, name)
    if len(values) <= lessened:
        return None
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - lessened)


def root(value):
    """The square root; None of None."""
    return value if value is None else math.sqrt(value)


@dataclass(frozen=True)
class Case:
    """An aggregate, what a PState that it goes into holds, and what plain Python makes of rows."""

    name: str
    make: Callable[[], Any]
    node: Any
    plain: Callable[[list[dict[str, Any]]], Any] | None


def case(name, make, node, plain=None):
    """One of them."""
    return Case(name, make, node, plain)


CASES = [
    case("count()", agg.count, int, len),
    case("count(expr)", lambda: agg.count("v"), int, lambda rows: len(held(rows))),
    case("count_if", lambda: agg.count_if("ok"), int, lambda rows: sum(held(rows, "ok"))),
    case("count_distinct", lambda: agg.count_distinct("v"), int, lambda r: len(set(held(r)))),
    case("sum", lambda: agg.sum("v"), int, lambda rows: sum(held(rows)) if held(rows) else None),
    case(
        "avg",
        lambda: agg.avg("v"),
        float,
        lambda rows: sum(held(rows)) / len(held(rows)) if held(rows) else None,
    ),
    case("variance", lambda: agg.variance("w"), float, lambda rows: spread(rows, 1)),
    case("stddev", lambda: agg.stddev("w"), float, lambda rows: root(spread(rows, 1))),
    case("var_pop", lambda: agg.var_pop("v"), float, lambda rows: spread(rows, 0, "v")),
    case("stddev_pop", lambda: agg.stddev_pop("v"), float, lambda r: root(spread(r, 0, "v"))),
    case("min", lambda: agg.min("v"), int, lambda rows: min(held(rows), default=None)),
    case("max", lambda: agg.max("v"), int, lambda rows: max(held(rows), default=None)),
    case("first", lambda: agg.first("w"), int, lambda rows: rows[0]["w"]),
    case("last", lambda: agg.last("w"), int, lambda rows: rows[-1]["w"]),
    case("min_by", lambda: agg.min_by("s", "w"), str, lambda r: min(r, key=lambda x: x["w"])["s"]),
    case("max_by", lambda: agg.max_by("s", "w"), str, lambda r: max(r, key=lambda x: x["w"])["s"]),
    case("bool_and", lambda: agg.bool_and("ok"), bool, lambda rows: all(held(rows, "ok"))),
    case("bool_or", lambda: agg.bool_or("ok"), bool, lambda rows: any(held(rows, "ok"))),
    case("collect_list", lambda: agg.collect_list("v"), List(int), held),
    case("collect_set", lambda: agg.collect_set("v"), Set(int), lambda r: sorted(set(held(r)))),
    case("collect_set(remove=)", lambda: agg.collect_set("v", remove="ok"), Set(int)),
    case("remove_from_set", lambda: agg.remove_from_set("v"), Set(int)),
    case("limit", lambda: agg.limit(2, "w"), List(int), lambda rows: [r["w"] for r in rows[:2]]),
    case(
        "top_n",
        lambda: agg.top_n(2, by="w", columns="w"),
        List(int),
        lambda rows: sorted((row["w"] for row in rows), reverse=True)[:2],
    ),
    case(
        "approx_count_distinct",
        lambda: agg.approx_count_distinct("v"),
        int,
        lambda rows: len(set(held(rows))),
    ),
    case(
        "approx_percentile",
        lambda: agg.approx_percentile("v", 0.5),
        float,
        lambda rows: ranked(rows, 0.5),
    ),
    case(
        "combine",
        lambda: agg.combine("", longest, "w", lift=lambda w: "x" * w, gives=str),
        str,
        lambda rows: "x" * max(row["w"] for row in rows),
    ),
    case("accumulate", lambda: agg.accumulate(chained, "v", initial=1, gives=int), int, chain),
    case("voided", agg.voided, int),
    case("lag", lambda: agg.lag("w"), int),
    case(
        "map",
        lambda: agg.map("s", agg.avg("w")),
        Map(str, float),
        lambda rows: by_text(rows, lambda r: sum(held(r, "w")) / len(r)),
    ),
    case(
        "struct",
        lambda: agg.struct(n=agg.count(), mean=agg.avg("w")),
        Struct(n=int, mean=float),
        lambda rows: {"n": len(rows), "mean": sum(held(rows, "w")) / len(rows)},
    ),
    case("count_values", lambda: agg.count_values("s"), Map(str, int), lambda r: by_text(r, len)),
    case(
        "map_from",
        lambda: agg.map_from("s", "w"),
        Map(str, int),
        lambda rows: by_text(rows, lambda r: r[-1]["w"]),
    ),
    case("merge_map", lambda: agg.merge_map("mm"), Map(str, int), latest),
]


class World:
    """A module in which aggregates stand in places."""

    def __init__(self, vnodes=2):
        self.module = atoll.Module("places")
        self.depot = self.module.depot("rows", ROW, partitions=1)
        self.mb = self.module.microbatch("mb", vnode_count=vnodes)
        self.rows = self.mb.source(self.depot, start_from=start.beginning())
        self.timed = self.rows.with_watermark("at", "0 seconds")

    def state(self, node):
        """A PState of its own."""
        return self.mb.pstate(f"p{len(self.mb.graph.pstates)}", node)

    def in_state(self, each):
        """The value of a key."""
        state = self.state(Map(str, each.node))
        self.rows.aggregate(state["k"], each.make())
        return state

    def in_struct(self, each):
        """A field of a struct, which is one value where all of it can be."""
        state = self.state(Map(str, Struct(n=int, x=each.node)))
        self.rows.aggregate(state["k"], n=agg.count(), x=each.make())
        return state

    def in_map(self, each):
        """Below a map."""
        state = self.state(Map(str, Map(str, each.node)))
        self.rows.aggregate(state["k"], agg.map("s", each.make()))
        return state

    def in_session(self, each):
        """The value of a session that readers see while it is open."""
        state = self.state(Map(str, Map(dt.datetime, Map(dt.datetime, each.node))))
        target = state["k"]["window_start"]["window_end"]
        self.rows.session_window("at", "4 seconds").aggregate(target, each.make())
        return state

    def columns(self, **made):
        """Of groups."""
        return self.rows.group_by("k").agg(**made)

    def asked(self, **made):
        """Of a query."""
        taken = self.module.query("asked", rows=List(Struct(k=str, v=int)))
        return taken.explode("rows", "row").select("row.k AS k", "row.v AS v").agg(**made)

    def windows(self, **made):
        """Of windows that close."""
        return self.timed.window("at", "10 seconds").aggregate_windows("k", **made)

    def sessions(self, **made):
        """Of sessions that close."""
        return self.timed.session_window("at", "4 seconds").aggregate_windows("k", **made)

    def maps(self, **made):
        """In maps that are columns."""
        return self.columns(**{name: agg.map("s", each) for name, each in made.items()})

    def last_rows(self, **made):
        """Of a key's last rows."""
        return self.rows.over("k", rows=3, **made)

    def structs(self, **made):
        """In structs that are columns, of a window."""
        return self.windows(x=agg.struct(**made))


STATES = {
    "value": World.in_state,
    "field of a struct": World.in_struct,
    "in `agg.map`": World.in_map,
    "session": World.in_session,
}
COLUMNS = {
    "`agg`, window": (World.columns, World.asked, World.windows),
    "session that closes": (World.sessions,),
    "`over`": (World.last_rows,),
    "in `agg.map` or `agg.struct`": (World.maps, World.structs),
}


def accepts(declare):
    """Whether a declaration is taken."""
    with suppress(DeclarationError):
        declare()
        return True
    return False


def filters(each):
    """Whether it takes a condition."""
    return accepts(lambda: each.make().where("w > 1"))


def found_in(each):
    """For each place whether the aggregate may stand there."""
    states = {name: accepts(lambda put=put: put(World(), each)) for name, put in STATES.items()}
    columns = {}
    for name, makes in COLUMNS.items():
        answers = {accepts(lambda make=make: make(World(), x=each.make())) for make in makes}
        (columns[name],) = answers  # everywhere the same
    return states | columns | {"`.where`": filters(each)}


def table():
    """The table of the page."""
    lines = []
    for each in CASES:
        places = found_in(each)
        if not lines:
            lines += [
                "| aggregate | " + " | ".join(places) + " |",
                "|---" * (len(places) + 1) + "|",
            ]
        cells = ["yes" if may else "" for may in places.values()]
        lines.append(" | ".join([f"| `{each.name}`", *cells]).rstrip() + " |")
    return "\n".join(lines)


def test_the_page_says_which_may_stand_where():
    """Each aggregate declared in each place, against the table."""
    named = {each.name.partition("(")[0] for each in CASES}
    assert named == set(agg.__all__), "an aggregate that has no case"
    assert table() in PAGE.read_text(encoding="utf-8"), f"the table is now:\n{table()}"


MIDNIGHT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def records():
    """Rows of two microbatches, the time going up."""
    chance = random.Random(7)
    at = MIDNIGHT
    made = []
    for number in range(40):
        at += dt.timedelta(seconds=chance.choice([0, 1, 2, 6]))
        made.append(
            {
                "k": chance.choice("ab"),
                "s": chance.choice("xyz"),
                "v": chance.choice([None, 1, 2, 3, 5, 8]),
                "w": number,
                "ok": chance.random() < 0.7,
                "mm": chance.choice([None, {}, {"p": number}, {"p": 1, "q": number}]),
                "at": at,
            }
        )
    return made[:25], made[25:]


def alike(value):
    """Sets as columns have them."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, dict):
        return {key: alike(each) for key, each in value.items()}
    return value


def same(found, expected):
    """Whether they are equal, estimates and floats about so."""
    if isinstance(expected, float | int) and not isinstance(expected, bool):
        return found == pytest.approx(expected, rel=0.011 if isinstance(found, float) else 0)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[k], expected[k]) for k in found)
    return found == expected


def by_key(rows, *names):
    """The rows by these columns, in their order."""

    def key(row):
        return tuple(row[name] for name in names)

    return {each: list(part) for each, part in groupby(sorted(rows, key=key), key=key)}


def windows_of(rows):
    """The rows of a key by window."""
    ten = dt.timedelta(seconds=10)
    marked = [row | {"window": MIDNIGHT + (row["at"] - MIDNIGHT) // ten * ten} for row in rows]
    return {begun: part for (begun,), part in by_key(marked, "window").items()}


def sessions_of(rows):
    """The rows of a key by the start of their session."""
    made = []
    for row in rows:
        if made and row["at"] < made[-1][-1]["at"] + dt.timedelta(seconds=4):
            made[-1].append(row)
        else:
            made.append([row])
    return {part[0]["at"]: part for part in made}


def allowed(place):
    """The cases that may stand in a place, and are compared."""
    return {f"c{at}": each for at, each in enumerate(CASES) if each.plain and found_in(each)[place]}


def test_what_may_stand_in_a_state_comes_to_what_plain_python_finds():
    """Two microbatches, the second tried twice; values, fields, maps and open sessions."""
    world = World(vnodes=1)
    made = {
        (place, name): put(world, each)
        for place, put in STATES.items()
        for name, each in allowed(place).items()
    }
    cases = {f"c{at}": each for at, each in enumerate(CASES)}
    with run(world) as (driver, rows):
        for (place, name), state in made.items():
            plain, found = cases[name].plain, driver.pstate(state).get()
            for key, part in keyed(rows):
                value = alike(found[key])
                expected: Any = plain(part)
                if place == "field of a struct":
                    expected = {"n": len(part), "x": expected}
                elif place == "in `agg.map`":
                    expected = by_text(part, plain)
                    if isinstance(cases[name].node, Map | Set):  # an empty one is none
                        expected = {text: each for text, each in expected.items() if each}
                elif place == "session":
                    expected = {at: plain(each) for at, each in sessions_of(part).items()}
                    value = {at: next(iter(ends.values())) for at, ends in value.items()}
                assert same(value, expected), (place, cases[name].name, key, value, expected)


@contextmanager
def run(world):
    """The module after both microbatches, of which the second fails once, and all rows."""
    first, second = records()
    with TopologyTestDriver(world.module, engine="inline") as driver:
        driver.depot("rows").append(first)
        driver.run_until_idle()
        driver.depot("rows").append(second)
        driver.fail_next_attempt()
        driver.run_until_idle()
        yield driver, [*first, *second]


def out_of(world, name, stream):
    """A depot with the rows that come out of a step."""
    kept = world.module.depot(name, OUT, partitions=1)
    stream.map(as_text, emits=OUT).append_to(kept)
    return name


OUT = "k string, begun string, got string"


def as_text(row):
    """All columns of a row as text, so that all places fit one depot."""
    values = row.asdict()
    begun = values.pop("window_start", None)
    values.pop("window_end", None)
    return {"k": values.pop("k"), "begun": str(begun), "got": repr(values)}


def read(driver, name):
    """The rows of a depot, by key and begin."""
    depot = driver.depot(name)
    rows = depot.read(0, 0, depot.end_offsets()[0]).to_pylist()
    return [(row["k"], row["begun"], ast.literal_eval(row["got"])) for row in rows]


def test_what_may_stand_in_a_column_comes_to_what_plain_python_finds():
    """Groups of a microbatch, windows and sessions that close, maps and structs of these."""
    world = World()
    plain, closing = allowed("`agg`, window"), allowed("session that closes")
    inside = allowed("in `agg.map` or `agg.struct`")

    def of(cases):
        return {name: each.make() for name, each in cases.items()}

    out_of(world, "groups", world.columns(**of(plain)))
    out_of(world, "windows", world.windows(**of(plain)))
    out_of(world, "sessions", world.sessions(**of(closing)))
    out_of(world, "maps", world.maps(**of(inside)))
    moving = allowed("`over`")
    out_of(world, "last_rows", world.last_rows(**of(moving)).select("k", "w", *moving))
    out_of(world, "structs", world.structs(**of(inside)))
    with run(world) as (driver, rows):
        first, second = records()
        latest_time = max(row["at"] for row in rows)
        expected = [(key, "None", part) for batch in (first, second) for key, part in keyed(batch)]
        check(per_batch(read(driver, "groups")), expected, plain)
        numbers = {row["w"]: row["k"] for row in rows}
        for key, _, found in read(driver, "last_rows"):
            mine = [row for row in rows if row["k"] == key and row["w"] <= found["w"]]
            assert numbers.pop(found["w"]) == key
            for name, each in moving.items():
                assert same(found[name], each.plain(mine[-3:])), (each.name, found["w"])
        assert not numbers, "rows that did not come out"
        maps = per_batch(read(driver, "maps"))
        assert [each[:2] for each in maps] == [each[:2] for each in expected]
        for (_, _, found), (_, _, part) in zip(maps, expected, strict=True):
            for name, each in inside.items():
                assert same(found[name], by_text(part, each.plain)), each.name
        for name, cut, length, cases in (
            ("windows", windows_of, 10, plain),
            ("structs", windows_of, 10, inside),
            ("sessions", sessions_of, 4, closing),
        ):
            wanted = [
                (key, str(begun), each)
                for key, part in keyed(rows)
                for begun, each in cut(part).items()
                if ends(begun, each, length, cut) <= latest_time
            ]
            got = read(driver, name)
            if name == "structs":
                got = [(key, begun, found["x"]) for key, begun, found in got]
            assert len(wanted) > 4
            check(sorted(got, key=at_begin), sorted(wanted, key=at_begin), cases)


def per_batch(rows):
    """The rows of two microbatches with two keys each, by key."""
    return [*sorted(rows[:2], key=at_begin), *sorted(rows[2:], key=at_begin)]


def keyed(rows):
    """The rows of each key."""
    return [(key, part) for (key,), part in by_key(rows, "k").items()]


def at_begin(row):
    """Key and begin."""
    return row[:2]


def ends(begun, rows, length, cut):
    """When a window is over."""
    last = rows[-1]["at"] if cut is sessions_of else begun
    return last + dt.timedelta(seconds=length)


def check(found, expected, cases):
    """Hold that the rows are these, each column what plain Python finds."""
    assert [each[:2] for each in found] == [each[:2] for each in expected]
    for (key, begun, values), (_, _, part) in zip(found, expected, strict=True):
        for name, each in cases.items():
            assert same(values[name], each.plain(part)), (each.name, key, begun)


def test_no_rows():
    """A fold without keys, asked of nothing: sets and maps are empty, counts 0."""
    world = World()
    world.rows.aggregate(world.state(Map(str, int))["k"], agg.count())
    world.asked(
        distinct=agg.count_distinct("v"),
        values=agg.collect_set("v"),
        by=agg.map("k", agg.sum("v")),
        both=agg.struct(n=agg.count(), total=agg.sum("v")),
        folded=agg.accumulate(chained, "v", initial=1, gives=int),
    ).returns()
    with TopologyTestDriver(world.module, engine="inline") as driver:
        assert driver.app.query("asked", rows=[]) == {
            "distinct": 0,
            "values": [],
            "by": {},
            "both": {"n": 0, "total": None},
            "folded": 1,
        }
        rows = [{"k": k, "v": v} for k, v in (("a", 3), ("b", 1), ("a", 3), ("a", 2))]
        assert driver.app.query("asked", rows=rows) == {
            "distinct": 3,
            "values": [1, 2, 3],
            "by": {"a": 8, "b": 1},
            "both": {"n": 4, "total": 9},
            "folded": chain(rows),
        }


def test_what_is_said_with_gives():
    """It must be what the PState holds, and one value."""
    with pytest.raises(DeclarationError, match="kept element by element"):
        agg.combine(0, max, "v", gives=Set(int))
    world = World()
    world.in_state(Case("x", lambda: agg.combine(0, max, "v", gives=float), int, None))
    with (
        pytest.raises(DeclarationError, match="says gives=float"),
        TopologyTestDriver(world.module, engine="inline"),
    ):
        pass
