"""Holds that handles behave as the dicts, sets and values they stand for, and are typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.codec.keys.elements import encode_element
from atoll.errors import StateError
from atoll.path import Path
from atoll.pstate.handles import handle_for
from atoll.pstate.select import select_one
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import List, Map, Set, Struct, as_node


class Declared:
    """A declaration."""

    def __init__(self, node, vnode_count=1, initial=None):
        """Bind."""
        self.module, self.topology, self.name = "shop", "mb", "state"
        self.node = as_node(node)
        self.vnode_count = vnode_count
        self.is_global = vnode_count == 1
        self.initial = initial


class Memory:
    """Session and reader over a dict."""

    def __init__(self):
        """Begin empty."""
        self.entries = {}

    def get(self, *address):
        """The value of a key, with or without a vnode before it."""
        return self.entries.get(address[-1])

    def put_many(self, keys, values):
        """Set or remove."""
        assert keys == sorted(set(keys))
        for key, value in zip(keys, values, strict=True):
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value

    def scan(self, *address, reverse=False, limit=None):
        """Entries of a range, with or without a vnode before the bounds."""
        low, high = address[-2:]
        found = [
            (key, self.entries[key])
            for key in sorted(self.entries, reverse=reverse)
            if (low is None or key >= low) and (high is None or key < high)
        ]
        return iter(found[:limit])


def made(node, **options):
    """(spec, memory, root handle)."""
    spec = pstate_spec(Declared(node, **options))
    memory = Memory()
    return spec, memory, handle_for(spec, memory, 0)


def whole(spec, memory, handle):
    """The state read back after a flush."""
    handle.flush()
    return select_one(memory, spec, Path())


KEYS = st.sampled_from(["", "a", "b", "b\0", "ü"])
NUMBERS = st.integers(-3, 3)
MAP_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, NUMBERS, NUMBERS),
        st.tuples(st.just("add"), KEYS, NUMBERS, NUMBERS),
        st.tuples(st.just("delete"), KEYS, NUMBERS),
        st.tuples(st.just("drop"), KEYS),
        st.tuples(st.just("replace"), KEYS, st.dictionaries(NUMBERS, NUMBERS, max_size=3)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("clear"), KEYS),
    ),
    max_size=25,
)


@given(MAP_STEPS)
def test_nested_maps_as_dicts(steps):
    """Random writes to a map of maps agree with nested dicts, read back in any way."""
    spec, memory, handle = made(Map(str, Map(int, int)))
    model = {}
    for name, *arguments in steps:
        _map_step(name, arguments, handle, model)
        assert sorted(handle) == sorted(model)
        for key, inner in model.items():
            assert handle[key] == inner
            assert list(handle[key].range_keys(reverse=True)) == sorted(inner, reverse=True)
            assert dict(handle[key].range_items(-1, 2)) == {
                number: value for number, value in inner.items() if -1 <= number < 2
            }
    assert whole(spec, memory, handle) == model


def _map_step(name, arguments, handle, model):  # noqa: C901  # a case per operation
    match name, *arguments:
        case "set", key, number, value:
            handle[key][number] = value
            model.setdefault(key, {})[number] = value
        case "add", key, number, value:
            inner = handle[key]
            inner[number] = inner.get(number, 0) + value
            model.setdefault(key, {})[number] = model.get(key, {}).get(number, 0) + value
        case "delete", key, number:
            assert (number in handle[key]) == (number in model.get(key, {}))
            if number in handle[key]:
                del handle[key][number]
                del model[key][number]
        case "drop", key:
            assert (key in handle) == (key in model)
            if key in handle:
                del handle[key]
                del model[key]
        case "replace", key, content:
            handle[key] = content
            model[key] = dict(content)
        case "clear", key:
            handle[key].clear()
            model.pop(key, None)
        case ("flush",):
            handle.flush()
    for key in [key for key, inner in model.items() if not inner]:
        del model[key]


@given(st.lists(st.tuples(st.sampled_from(["add", "discard"]), NUMBERS), max_size=20))
def test_sets(steps):
    """Random writes to a set agree with a set."""
    spec, memory, handle = made(Set(int))
    model = set()
    for name, number in steps:
        getattr(handle, name)(number)
        getattr(model, name)(number)
        assert list(handle) == sorted(model)
        assert (number in handle) == (number in model)
    assert len(handle) == len(model)
    assert bool(handle) == bool(model)
    found = whole(spec, memory, handle)
    assert found == model
    assert list(found) == sorted(model)


def test_the_bank_transfer_of_the_design():
    """Augmented assignment, defaults and nested writes without preparation."""
    funds_spec, funds_memory, funds = made(Map(int, int))
    out_spec, out_memory, outgoing = made(Map(int, Map(str, Struct(to=int, amount=int, ok=bool))))
    funds[1] = funds.get(1, 0) + 100
    assert funds.get(1, 0) >= 30
    funds[1] -= 30
    outgoing[1]["t1"] = {"to": 2, "amount": 30, "ok": True}
    assert whole(funds_spec, funds_memory, funds) == {1: 70}
    assert whole(out_spec, out_memory, outgoing) == {1: {"t1": {"to": 2, "amount": 30, "ok": True}}}
    with pytest.raises(KeyError):
        funds[2] -= 1
    with pytest.raises(KeyError):
        del funds[2]


def test_values():
    """A PState of one value, with and without an initial one."""
    spec, memory, handle = made(int, initial=5)
    assert handle.get() == 5
    handle.value += 2
    assert handle.value == 7
    handle.update(lambda value: value * 2)
    assert whole(spec, memory, handle) == 14
    handle.clear()
    assert whole(spec, memory, handle) == 5
    spec, memory, handle = made(List(str))
    assert handle.get() is None
    assert handle.get([]) == []
    handle.set(["a"])
    assert whole(spec, memory, handle) == ["a"]


def test_structs_stored_field_by_field():
    """Leaf fields are values, element-wise fields are handles; whole values replace."""
    spec, memory, handle = made(Map(str, Struct(name=str, tags=Set(str), seen=Map(str, int))))
    ann = handle["ann"]
    assert ann["name"] is None
    ann["name"] = "Ann"
    ann["tags"].add("x")
    ann["seen"]["home"] = 1
    handle["bob"] = {"name": "Bob", "tags": ["z", "y"]}
    assert whole(spec, memory, handle) == {
        "ann": {"name": "Ann", "tags": {"x"}, "seen": {"home": 1}},
        "bob": {"name": "Bob", "tags": {"y", "z"}, "seen": {}},
    }
    ann["tags"] = {"new"}
    assert whole(spec, memory, handle)["ann"]["tags"] == {"new"}
    assert "ann" in handle
    ann.clear()
    assert "ann" not in handle


def test_mixins_of_dicts():
    """What a dict has beyond the basics comes along."""
    _, _, handle = made(Map(str, int))
    handle.update({"b": 2, "a": 1})
    assert handle == {"a": 1, "b": 2}
    assert list(handle.items()) == [("a", 1), ("b", 2)]
    assert list(handle.values()) == [1, 2]
    assert handle.setdefault("c", 3) == 3
    assert handle.pop("c") == 3
    assert len(handle) == 2
    handle.clear()
    assert not handle


@pytest.mark.parametrize(
    "wrong",
    [
        lambda h: h[1],
        lambda h: h.get(None),
        lambda h: h.__setitem__("a", "text"),
        lambda h: h.__setitem__("a", 2**63),
    ],
    ids=["key", "none", "value", "wide"],
)
def test_types_are_checked(wrong):
    """At the line that used them."""
    with pytest.raises(StateError):
        wrong(made(Map(str, int))[2])


def test_wrong_shapes_are_refused():
    """A whole value must have the shape of what it replaces; fields must exist."""
    with pytest.raises(StateError):
        made(Map(str, Map(str, int)))[2]["a"] = 5
    with pytest.raises(StateError):
        made(Map(str, Struct(tags=Set(str))))[2]["a"]["nothing"]


def test_keys_of_other_vnodes_are_refused():
    """A handle reaches its own vnode, and names the other one."""
    spec = pstate_spec(Declared(Map(str, int), vnode_count=16))
    handle = handle_for(spec, Memory(), 3)
    kind = spec.node.key
    for number in range(50):
        key = f"k{number}"
        vnode = spec.vnode_of(encode_element(key, kind))
        if vnode == 3:
            handle[key] = 1
        else:
            with pytest.raises(StateError, match=f"lies in vnode {vnode}, this row in 3") as caught:
                handle[key] = 1
            assert caught.value.context["vnode_count"] == 16


@pytest.mark.parametrize(
    ("node", "initial"),
    [
        (int, 7),
        (Map(str, Map(int, Struct(a=int, b=List(str)))), None),
        (Map(str, Struct(name=str, tags=Set(str))), None),
        (Struct(total=int, mean=float), {"total": 1, "mean": 0.5}),
    ],
    ids=["scalar", "nested", "apart", "struct"],
)
def test_specs_survive_json_and_pickle(node, initial):
    """The deployment object and the tasks know the same PState."""
    import json
    import pickle

    spec = pstate_spec(Declared(node, initial=initial))
    for copy in (
        PStateSpec.from_json(json.loads(json.dumps(spec.to_json()))),
        pickle.loads(pickle.dumps(spec)),
    ):
        assert copy == spec
        assert copy.initial_bytes == spec.initial_bytes


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.booleans(),
            st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), max_size=5),
        ),
        max_size=8,
    )
)
def test_what_a_row_wrote_can_be_taken_back(rows):  # fmt: skip
    """Alone, also when it was flushed by a scan on the way; earlier and later rows stay."""
    spec = pstate_spec(Declared(Map(str, int)), {})
    session = Memory()
    state = handle_for(spec, session, 0)
    expected = {}
    for bad, scans, writes in rows:
        state.savepoint()
        after = dict(expected)
        for key, value in writes:
            if value is not None:
                state[key] = after[key] = value
            elif key in after:
                del state[key], after[key]
            if scans:
                assert dict(state.items()) == after
        if bad:
            state.roll_back()
        else:
            expected = after
        assert {key: state.get(key) for key in "abc" if key in state} == expected
    state.flush()
    assert dict(handle_for(spec, session, 0).items()) == expected
