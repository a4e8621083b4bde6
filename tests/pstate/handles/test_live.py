"""Holds that what a function does to the values of a state is written, or refused with a way out.

Each case is a function of `process` over one or two states, called as a topology calls it.
"""

from __future__ import annotations

import copy
import gc
import heapq
import json
import pickle

import pytest

from atoll import List, Map, Set, Struct, path
from atoll.errors import StateError
from atoll.testing import call, state

TOTALS = Map(str, Struct(n=int, total=int))
LISTS = Map(str, List(int))


def after(schema, content, *functions, **options):
    """The state after each function was called once."""
    held = state(schema, content, vnode_count=1, **options)
    for function in functions:
        call(lambda row, s, f=function: f(s), {}, held)
    return held.get()


def statement(text):
    """A function that runs a statement on the state ``s``."""
    code = compile(text, "<statement>", "exec")
    return lambda s: exec(code, {"s": s, "heapq": heapq, "copy": copy})


@pytest.mark.parametrize(
    "text",
    [
        "s['a'].append(9)",
        "s['a'] += [9]",
        "s.get('a').append(9)",
        "s.setdefault('a', []).append(9)",
        "x = s['a']; x[len(x):] = [9]",
        "for x in s.values(): x.append(9)",
        "for k, x in s.items(): x.append(9)",
        "for k, x in s.range_items(): x.append(9)",
        "list.append(s['a'], 9)",
        "heapq.heappush(s['a'], 9)",
        "x = s['a']; s['a'] = x; x.append(9)",
        "x = s['a']; s['a'].append(8); x[-1] = 9",
        "x = s.pop('a'); s['a'] = x; x.append(9)",
        "x = [3, 1]; s['a'] = x; x.append(9)",
        "s['a'] = [3, 1]; s['a'].append(9)",
        "s.update({'a': [3, 1]}); s['a'].append(9)",
        "s |= {'a': [3, 1]}; s['a'].append(9)",
        "del s['a']; s.setdefault('a', [3, 1]).append(9)",
        "(lambda items: items.append(9))(s['a'])",
        "s['a'].append(9); len(s)",
        "s['a'].append(9); s['b'] = [1]; del s['b']",
    ],
)
def test_lists_are_changed_in_place(text):
    """In every way."""
    assert after(LISTS, {"a": [3, 1]}, statement(text))["a"] in ([3, 1, 9], [1, 3, 9])


@pytest.mark.parametrize(
    "text",
    [
        "s['a']['n'] += 1",
        "s['a'].update(n=2)",
        "s['a'] |= {'n': 2}",
        "x = s['a']; x['n'] = 2",
        "x = {}; s['a'] = x; x['n'] = 2; x['total'] = 7",
        "x = s.setdefault('a', {}); x['n'] = 2",
        "s['a'] = {'total': 7}; s['a']['n'] = 2",
        "dict.__setitem__(s['a'], 'n', 2)",
        "for x in s.values(): x['n'] += 1",
    ],
)
def test_structs_are_changed_in_place(text):
    """Also one that was put in before it had all its fields."""
    assert after(TOTALS, {"a": {"n": 1, "total": 7}}, statement(text)) == {
        "a": {"n": 2, "total": 7}
    }


def test_values_in_values_and_under_keys():
    """However deep."""
    schema = Map(str, Map(int, List(Struct(tags=List(str), seen=Map(str, int)))))
    content = {"a": {1: [{"tags": ["x"], "seen": {"u": 1}}]}}

    def change(s):
        inner = s["a"][1][0]
        inner["tags"].append("y")
        inner["seen"]["v"] = 2
        s["b"][2] = [{"tags": [], "seen": {}}]
        s["b"][2][0]["tags"] += ["z"]

    assert after(schema, content, change) == {
        "a": {1: [{"tags": ["x", "y"], "seen": {"u": 1, "v": 2}}]},
        "b": {2: [{"tags": ["z"], "seen": {}}]},
    }


def test_a_state_of_one_value():
    """Also the initial one, which stays what it was declared to be."""
    initial = [1]

    def change(s):
        s.value.append(2)
        s.get().append(3)

    held = state(List(int), initial=initial)
    for _ in range(2):
        call(lambda row, s: change(s), {}, held)
    assert held.get() == [1, 2, 3, 2, 3]
    assert initial == [1]
    assert after(List(int), None, lambda s: s.get(), initial=[1]) == [1]


def test_bytes_given_as_a_bytearray():
    """It may go on changing until the call is done."""

    def change(s):
        data = bytearray(b"a")
        s["k"] = data
        data += b"b"

    assert after(Map(str, bytes), None, change) == {"k": b"ab"}


def test_what_does_not_fit_is_refused_with_its_key():
    """When the call is done; nothing of the call is written."""
    held = state(LISTS, {"a": [1]}, vnode_count=1, name="lists")

    def change(row, s):
        s["b"] = [2]
        s["a"].append("text")

    with pytest.raises(StateError, match="does not fit int") as caught:
        call(change, {}, held)
    assert (caught.value.context["pstate"], caught.value.context["key"]) == ("lists", "['a']")
    assert held.get() == {"a": [1]}


def test_what_is_only_read_is_not_written():
    """So a change stream stays silent."""
    held = state(Map(str, List(float)), {"a": [0.0, 1.5]}, vnode_count=1)

    def look(row, s):
        assert sum(s["a"]) == 1.5
        list(s.items())
        assert s.waiting() == 0

    call(look, {}, held)
    assert held.handle(0).waiting() == 0


# -- objects that stand for no value any more -----------------------------------------------------


def test_a_value_of_an_earlier_call():
    """Nobody would see that it is changed: an error that says what to do."""
    kept = []

    def first(row, s):
        kept.append(s["a"])

    def later(row, s):
        kept[0].append(9)

    held = state(LISTS, {"a": [1]}, vnode_count=1, name="lists")
    call(first, {}, held)
    with pytest.raises(StateError, match="'lists' was changed after the call") as caught:
        call(later, {}, held)
    assert "read it again in each call" in caught.value.hint
    assert held.get() == {"a": [1]}


def test_a_value_of_an_earlier_call_that_is_put_back():
    """Is put in, as any other."""
    kept = []

    def later(row, s):
        kept[0].append(9)
        s["a"] = kept[0]

    held = state(LISTS, {"a": [1]}, vnode_count=1)
    call(lambda row, s: kept.append(s["a"]), {}, held)
    call(later, {}, held)
    assert held.get() == {"a": [1, 9]}


def test_one_object_for_the_rows_of_a_microbatch():
    """A list that is filled anew for each row would be the value of all keys in Python."""
    buffer = []

    def fill(row, s):
        buffer[:] = [row.v]
        s[row.k] = buffer

    held = state(LISTS, vnode_count=1)
    call(fill, {"k": "a", "v": 1}, held)
    with pytest.raises(StateError, match="after the call"):
        call(fill, {"k": "b", "v": 2}, held)


@pytest.mark.parametrize(
    ("schema", "given", "change"),
    [
        (Map(str, Map(str, int)), {}, lambda given: given.update(n=1)),
        (Map(str, Set(int)), {1}, lambda given: given.add(2)),
        (Map(str, Struct(tags=Set(str))), {"tags": set()}, lambda given: given.clear()),
        (Map(str, Struct(tags=Set(str))), {"tags": set()}, lambda given: given["tags"].add("x")),
    ],
    ids=["map", "set", "struct", "field"],
)
@pytest.mark.parametrize("way", ["assign", "setdefault"])
def test_a_collection_that_is_stored_by_element(schema, given, change, way):
    """It was copied element by element: changing it afterwards is an error."""
    given = copy.deepcopy(given)

    def put(s):
        if way == "assign":
            s["a"] = given
        else:
            s.setdefault("a", given)
        change(given)

    with pytest.raises(StateError, match="after the state went on without it"):
        after(schema, None, put)


def test_a_struct_that_lacks_fields_and_is_read_back():
    """What is read has all fields, so it is another object; the first must rest then."""

    def change(s):
        given = {"n": 1}
        s["a"] = given
        s["a"]["total"] = 5
        given["n"] = 2

    with pytest.raises(StateError, match="went on without it"):
        after(TOTALS, None, change)


def test_a_value_that_a_path_replaced():
    """The object that stood for it must rest."""

    def change(s):
        held = s["a"]
        s.transform(path.key("a").term(lambda items: [*items, 2]))
        assert s["a"] == [1, 2]
        held.append(3)

    with pytest.raises(StateError, match="went on without it"):
        after(LISTS, {"a": [1]}, change)


def test_a_path_sees_what_was_changed_in_place():
    """Before it reads, and before it writes."""

    def change(s):
        s["a"].append(2)
        assert s.select(path.key("a").all()) == [1, 2]
        s["a"].append(3)
        s.transform(path.key("a").term(lambda items: [*items, 4]))

    assert after(LISTS, {"a": [1]}, change) == {"a": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.transform(path.key("a").term(lambda items: items.append(2))),
        lambda s: s.transform(path.key("a").term(lambda items: items.sort(reverse=True))),
    ],
    ids=["append", "sort"],
)
def test_a_term_that_returns_nothing(change):
    """It changed a copy and would have written None."""
    with pytest.raises(StateError, match="returned None"):
        after(LISTS, {"a": [1, 2]}, change)


def test_an_update_that_returns_nothing():
    """As a term."""
    with pytest.raises(StateError, match="returned None"):
        after(List(int), [1], lambda s: s.update(lambda items: items.append(2)))
    assert after(List(int), [1], lambda s: s.update(lambda items: [*items, 2])) == [1, 2]


def test_a_handle_of_rows_that_are_done():
    """It would write to nobody."""
    from atoll.pstate.handles import handle_for

    held = state(Map(str, Map(str, int)), vnode_count=1)
    handle = handle_for(held.spec, held.handle(0)._writes.writer, 0)
    nested = handle["a"]
    nested["x"] = 1
    handle.close()
    for use in (
        lambda: handle["a"]["y"],
        lambda: nested.update(x=2),
        lambda: list(nested),
        lambda: len(handle),
        lambda: "a" in handle,
    ):
        with pytest.raises(StateError, match="used after the rows"):
            use()


def test_many_values_in_one_call_are_let_go():
    """A call that walks over a great many holds those only that the function holds itself."""
    held = state(LISTS, {f"k{n:05}": [n] for n in range(5_000)}, vnode_count=1)
    kept = []

    def walk(row, s):
        for key, value in s.items():
            value.append(-1)
            if key.endswith("77"):
                kept.append(value)
        for value in kept:
            value.append(-2)
        gc.collect()
        assert len(s._writes.live._objects) < 3_000

    call(walk, {}, held)
    got = held.get()
    assert all(v[1:] == ([-1, -2] if k.endswith("77") else [-1]) for k, v in got.items())


# -- values are values ----------------------------------------------------------------------------


def test_values_are_plain():
    """Just lists, dicts and sets."""

    def look(s):
        assert type(s["a"]) is list
        for same in (json.loads(json.dumps(s["a"])), copy.deepcopy(s["a"])):
            assert same == [1]
        assert pickle.loads(pickle.dumps(s["a"])) == [1]
        assert repr(s["a"]) == "[1]"

    after(LISTS, {"a": [1]}, look)


def test_handles_become_values():
    """Copied, pickled, yielded, put in elsewhere."""
    schema = Map(str, Map(str, List(int)))
    held = state(schema, {"a": {"x": [1]}}, vnode_count=1)
    other = state(schema, vnode_count=1)

    def move(row, s, t):
        assert s["a"] == {"x": [1]}
        for same in (copy.copy(s["a"]), copy.deepcopy(s["a"]), s["a"].copy(), s["a"] | {}):
            assert type(same) is dict
            assert same == {"x": [1]}
        assert pickle.loads(pickle.dumps(s["a"])) == {"x": [1]}
        yield {"whole": s["a"], "inner": s["a"]["x"]}
        t["b"] = s["a"]
        s["a"]["x"].append(2)
        s["a"] = s["a"]
        t["c"]["y"] = s["a"]["x"]
        s["a"]["x"].append(3)

    assert call(move, {}, held, other) == [{"whole": {"x": [1]}, "inner": [1]}]
    assert held.get() == {"a": {"x": [1, 2, 3]}}
    assert other.get() == {"b": {"x": [1]}, "c": {"y": [1, 2]}}


def test_a_value_of_one_key_put_under_another_is_a_copy():
    """Whether the first was there before, or put in by the same call."""

    def change(s):
        s["new"] = [1]
        for key in ("old", "new"):
            s[f"{key} copy"] = s[key]
            s[key].append(2)

    assert after(LISTS, {"old": [1]}, change) == {
        "old": [1, 2],
        "old copy": [1],
        "new": [1, 2],
        "new copy": [1],
    }


def test_what_a_function_yields_is_taken_at_once():
    """One dict, changed between two yields."""

    def count(row, s):
        out = {"n": 0, "log": s["a"]}
        for _ in range(2):
            out["n"] += 1
            out["log"].append(out["n"])
            yield out

    held = state(LISTS, {"a": []}, vnode_count=1)
    assert call(count, {}, held) == [{"n": 1, "log": [1]}, {"n": 2, "log": [1, 2]}]


def test_nested_maps_are_dicts():
    """What their methods give, and take."""
    schema = Map(str, Map(str, int))

    def change(s):
        assert s.get("a") is None
        assert s.get("a", 7) == 7
        assert s.setdefault("a", {"x": 1}) == {"x": 1}
        assert s.setdefault("a", {"x": 2}) == {"x": 1}
        s["a"] |= {"y": 2}
        s["a"] = s["a"]
        assert s.pop("a") == {"x": 1, "y": 2}
        assert s.pop("a", None) is None
        s["b"]["z"] = 3
        assert s.popitem() == ("b", {"z": 3})
        s["c"]["z"] = 4

    assert after(schema, None, change) == {"c": {"z": 4}}


def test_sets_are_sets():
    """Operators give sets of one's own, augmented ones write."""

    def change(s):
        tags = s["a"]
        assert tags | {3} == {1, 2, 3}
        assert type(tags - {1}) is set
        assert tags < {1, 2, 3}
        tags |= {3}
        tags -= {1}
        s["a"] ^= {2, 4}
        s["a"] &= {3, 4, 5}
        s["b"] = s["a"]
        s["b"].intersection_update([3])

    assert after(Map(str, Set(int)), {"a": {1, 2}}, change) == {"a": {3, 4}, "b": {3}}


def test_structs_stored_by_field_are_dicts():
    """With all their fields."""

    def change(s):
        user = s["a"]
        user["log"].append(1)
        assert user == {"n": None, "log": [1], "tags": set()}
        user.update(n=1)
        user["n"] += 1
        del user["log"]
        assert dict(user.items())["log"] is None
        assert s.get("b") is None

    schema = Map(str, Struct(n=int, log=List(int), tags=Set(str)))
    assert after(schema, {"a": {"log": []}}, change) == {"a": {"n": 2, "log": None, "tags": set()}}


def test_entries_written_while_a_map_is_walked():
    """Are read as they are then."""

    def change(s):
        seen = []
        for key, value in s.range_items():
            seen.append((key, value))
            s["b"] = 20
            s.pop("c", None)
            len(s)
        assert seen == [("a", 1), ("b", 20)]

    assert after(Map(str, int), {"a": 1, "b": 2, "c": 3}, change) == {"a": 1, "b": 20}


def test_the_sign_of_a_zero_in_a_struct():
    """Is kept, as that of a zero alone is."""

    def change(s):
        s["a"]["x"] = -0.0

    got = after(Map(str, Struct(x=float, n=int)), {"a": {"x": 0.0, "n": 1}}, change)
    assert str(got["a"]["x"]) == "-0.0"
