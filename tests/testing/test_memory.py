"""Holds that a function of `process` does in `atoll.testing.call` what it does in a topology.

The same functions over the same rows, in both: what is in the states after each row, what was
yielded, or the error.
"""

from __future__ import annotations

import pytest

import atoll
from atoll import List, Map, Set, Struct
from atoll.errors import DeclarationError, StateError, UsageError
from atoll.testing import TopologyTestDriver, call, state

SCHEMAS = {
    "totals": Map(str, Struct(n=int, total=int)),
    "lists": Map(str, List(int)),
    "nested": Map(str, Map(str, List(str))),
    "users": Map(str, Struct(n=int, tags=Set(str), log=List(tuple[int, str]))),
}
COLUMNS = "k string, v long, tags array<string>, m map<string, long>"
EMITS = "k string, log array<long>, m map<string, long>, pair struct<f0: long, f1: string>"
ROWS = [
    {"k": "a", "v": 1, "tags": ["x"], "m": {"one": 1}},
    {"k": "b", "v": 2, "tags": [], "m": {}},
    {"k": "a", "v": 3, "tags": ["y", "x"], "m": {"two": 2}},
    {"k": "c", "v": 4, "tags": None, "m": None},
]


def in_place(row, totals, lists, nested, users):
    """Everything is changed in place."""
    entry = totals.setdefault(row.k, {"n": 0, "total": 0})
    entry["n"] += 1
    totals[row.k]["total"] += row.v
    lists.setdefault(row.k, []).append(row.v)
    nested[row.k].setdefault("tags", []).extend(row.tags or ())
    user = users[row.k]
    user["tags"] |= set(row.tags or ())
    user["log"] = user["log"] or []
    user["log"].append((row.v, row.k))
    yield {"k": row.k, "log": lists[row.k], "m": row.m, "pair": user["log"][-1]}
    lists[row.k].append(-row.v)


def another_key(row, totals, lists, nested, users):
    """Reaches for a key that lies in another vnode."""
    lists["elsewhere" + row.k] = [row.v]


def ill_typed(row, totals, lists, nested, users):
    """Changes a value to one that does not fit."""
    lists[row.k] = [row.v]
    lists[row.k].append(row.k)


def ill_yielded(row, totals, lists, nested, users):
    """Yields what does not fit."""
    yield {"k": row.k, "log": ["text"]}


HELD = []


def held(row, totals, lists, nested, users):
    """Changes what an earlier row has read; all rows have one key."""
    if HELD:
        HELD.pop().append(row.v)
        return
    lists["a"] = [row.v]
    HELD.append(lists["a"])


def one_vnode(rows):
    """The rows, all of one key."""
    return [{**row, "k": "a"} for row in rows]


def module_of(function):
    """A topology of one step."""
    module = atoll.Module("m")
    depot = module.depot("rows", COLUMNS, partition_by="k", partitions=1)
    out = module.depot("out", EMITS, partition_by="k", partitions=1)
    mb = module.microbatch("mb", vnode_count=16)
    states = [mb.pstate(name, schema) for name, schema in SCHEMAS.items()]
    mb.source(depot).process(function, key="k", states=states, emits=EMITS).append_to(out)
    return module


@pytest.mark.parametrize("max_records", [1, 4], ids=["row by row", "at once"])
def test_a_function_does_the_same(max_records):
    """State and emitted rows, whatever the microbatches."""
    states = {name: state(schema, name=name) for name, schema in SCHEMAS.items()}
    emitted = [each for row in ROWS for each in call_all(in_place, row, states)]
    assert states["totals"].get()["a"] == {"n": 2, "total": 4}
    assert states["lists"].get()["a"] == [1, -1, 3, -3]
    assert [each["log"] for each in emitted] == [[1], [2], [1, -1, 3], [4]]
    assert emitted[0]["m"] == {"one": 1}
    assert emitted[0]["pair"] == (1, "a")
    with TopologyTestDriver(module_of(in_place), engine="inline") as driver:
        driver.depot("rows").append(ROWS)
        while driver.microbatch(max_records=max_records):
            pass
        for name, held_state in states.items():
            assert driver.pstate(name).get() == held_state.get()
        depot = driver.depot("out")
        assert atoll.rows(depot.read(0, 0, depot.end_offsets()[0])) == emitted


def call_all(function, row, states):
    """One call with all states."""
    return call(function, row, *states.values(), key="k", emits=EMITS)


@pytest.mark.parametrize("function", [another_key, ill_typed, ill_yielded, held])
def test_a_function_fails_the_same(function):
    """With the same words and the same way out; nothing is written."""
    HELD.clear()
    states = {name: state(schema, name=name) for name, schema in SCHEMAS.items()}
    rows = one_vnode(ROWS)
    with pytest.raises(atoll.AtollError) as caught:
        [call_all(function, row, states) for row in rows]
    HELD.clear()
    with TopologyTestDriver(module_of(function), engine="inline") as driver:
        driver.depot("rows").append(rows)
        while (step := driver.step()) not in ("failed", "idle"):
            pass
        error = driver.status()["error"]
        assert step == "failed"
        assert caught.value.message in error["message"]
        assert error["code"] == caught.value.code
        assert error["hint"] == caught.value.hint
        assert driver.pstate("totals").get() == states["totals"].get() == {}


def test_a_call_that_raises_has_written_nothing():
    """Neither what it put in nor what it changed in place; the error is the function's own."""
    lists = state(SCHEMAS["lists"], {"a": [1]})

    def fail(row, lists):
        lists["a"].append(2)
        lists[row.k] = [3]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(fail, {"k": "a"}, lists, key="k")
    assert lists.get() == {"a": [1]}


def test_states_hold_what_they_are_given():
    """Maps and sets over all vnodes in order, structs by field, values; as copies."""
    content = {f"k{n}": [n] for n in range(40)}
    lists = state(SCHEMAS["lists"], content)
    content["k1"].append(2)
    assert lists.get() == {f"k{n}": [n] for n in range(40)}
    assert list(lists.get()) == sorted(lists.get())
    assert state(Set(int), {3, 1}).get() == {1, 3}
    assert state(int, 5).get() == 5
    assert state(int, initial=7).get() == 7
    assert state(Struct(n=int, tags=Set(str)), {"n": 1, "tags": {"x"}}).get() == {
        "n": 1,
        "tags": {"x"},
    }
    with pytest.raises(StateError):
        state(Map(str, int), {"a": "text"})
    with pytest.raises(DeclarationError):
        state(dict)


def test_a_state_that_is_spread_needs_a_key():
    """As a step of a topology does; a global one takes none."""
    with pytest.raises(UsageError, match="spread by key"):
        call(lambda row, s: None, {"k": "a"}, state(Map(str, int)))
    whole = state(Map(str, int), vnode_count=1)
    call(lambda row, s: s.update(a=1, b=2), {"k": "a"}, whole)
    assert whole.get() == {"a": 1, "b": 2}
