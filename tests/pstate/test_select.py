"""Holds that paths navigate stored state exactly as they would nested Python values."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import path
from atoll.errors import PathError
from atoll.path import Path, from_json
from atoll.pstate.handles import handle_for
from atoll.pstate.navigate.ordered import SortedSet
from atoll.pstate.select import select, select_one
from atoll.pstate.spec import pstate_spec
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
    """A reader over a dict per vnode, which counts what is read."""

    def __init__(self, vnode_count):
        """Begin empty."""
        self.vnodes = [{} for _ in range(vnode_count)]
        self.read = set()

    def get(self, vnode, key):
        """The value of a key."""
        self.read.add(vnode)
        return self.vnodes[vnode].get(key)

    def scan(self, vnode, low=None, high=None, *, reverse=False, limit=None):
        """Entries of a range."""
        self.read.add(vnode)
        found = [
            (key, value)
            for key, value in sorted(self.vnodes[vnode].items(), reverse=reverse)
            if (low is None or key >= low) and (high is None or key < high)
        ]
        return iter(found[:limit])


class _Session:
    def __init__(self, entries):
        self.entries = entries
        self.get = entries.get

    def put_many(self, keys, values):
        self.entries.update(zip(keys, values, strict=True))

    def scan(self, low=None, high=None, *, reverse=False):
        return iter(())


def stored(node, content, vnode_count=1):
    """(reader, spec) of a map PState with this content, each key in its vnode."""
    from atoll.codec.keys.elements import encode_element

    spec = pstate_spec(Declared(node, vnode_count))
    reader = Memory(vnode_count)
    for key, value in content.items():
        vnode = spec.vnode_of(encode_element(key, spec.node.key))
        handle = handle_for(spec, _Session(reader.vnodes[vnode]), vnode)
        handle[key] = value
        handle.flush()
    return reader, spec


WORDS = st.text("ab\0", max_size=3)
NESTED = st.dictionaries(
    WORDS, st.dictionaries(st.integers(-50, 50), st.integers(-9, 9), min_size=1, max_size=60)
)
COUNTS = st.sampled_from([1, 4])


@given(NESTED, COUNTS, WORDS, st.none() | st.integers(-60, 60), st.none() | st.integers(-60, 60),
       st.none() | st.integers(0, 5))  # fmt: skip
def test_as_nested_dicts(content, vnode_count, word, low, high, limit):
    """Every step over a map of maps, in one vnode and over several."""
    reader, spec = stored(Map(str, Map(int, int)), content, vnode_count)
    ordered = {key: dict(sorted(content[key].items())) for key in sorted(content)}
    inner = ordered.get(word, {})
    inside = [n for n in inner if (low is None or n >= low) and (high is None or n < high)]
    last = inside[max(0, len(inside) - limit) :] if limit is not None else inside
    entries = list(ordered.items())
    for wanted, built in [
        ([ordered], path.stay()),
        ([inner or None], path.key(word)),
        ([inner] if inner else [], path.must(word)),
        ([inner.get(7)], path.key(word, 7)),
        ([inner[7]] if 7 in inner else [], path.key(word).must(7)),
        (list(ordered), path.keys()),
        (entries, path.all()),
        (entries[:1], path.first()),
        (entries[-1:], path.last()),
        ([len(ordered)], path.size()),
        ([len(inner)], path.key(word).size()),
        (list(ordered.values()), path.map_vals()),
        ([v for each in ordered.values() for v in each.values()], path.map_vals().map_vals()),
        (list(inner.items())[-1:], path.key(word).last()),
        ([{n: inner[n] for n in inside[:limit]}], path.key(word).sorted_range(low, high, limit)),
        ([{n: inner[n] for n in last if low is None}] if low is None else None,
         path.key(word).sorted_range_to(high, limit)),
        ([v for v in inner.values() if v > 3], path.key(word).map_vals().filter(">", 3)),
        ([k for k, _ in entries if word <= k], path.sorted_range_from(word).keys()),
        ([inner.get(1), len(ordered)],
         path.multi_path(path.key(word, 1), path.size())),
    ]:  # fmt: skip
        if wanted is not None:
            found = select(reader, spec, built)
            assert found == wanted, built
            assert [list(each) for each in found if isinstance(each, dict)] == [
                list(each) for each in wanted if isinstance(each, dict)
            ]


def test_a_fixed_key_reads_one_vnode():
    """A path that begins with a key touches no other vnode."""
    content = {f"k{number}": {number: number} for number in range(50)}
    reader, spec = stored(Map(str, Map(int, int)), content, 16)
    reader.read.clear()
    assert select_one(reader, spec, path.key("k7").all()) == (7, 7)
    assert len(reader.read) == 1
    assert select(reader, spec, path.keys()) == sorted(content)
    assert len(reader.read) == 16


def test_sets_lists_and_structs():
    """Sets are element-wise, lists and leaf structs navigate in memory."""
    node = Map(str, Struct(name=str, tags=Set(str), log=List(Struct(at=int, what=str))))
    content = {
        "ann": {"name": "Ann", "tags": ["b", "a", "c"], "log": [{"at": 1, "what": "in"}]},
        "bob": {"name": "Bob", "tags": [], "log": []},
    }
    reader, spec = stored(node, content)
    ann = path.key("ann")
    assert select(reader, spec, ann.field("name")) == ["Ann"]
    assert select(reader, spec, path.map_vals().field("name")) == ["Ann", "Bob"]
    assert select(reader, spec, ann.field("tags").all()) == ["a", "b", "c"]
    assert select(reader, spec, ann.field("tags").last()) == ["c"]
    assert select(reader, spec, ann.field("tags").sorted_range("b")) == [["b", "c"]]
    assert select_one(reader, spec, ann.field("tags")) == {"a", "b", "c"}
    assert list(select_one(reader, spec, ann.field("tags"))) == ["a", "b", "c"]
    assert select(reader, spec, ann.field("log").all().field("what")) == ["in"]
    assert select(reader, spec, ann.field("log").size()) == [1]
    assert select(reader, spec, path.key("bob").field("log").first()) == []
    assert select(reader, spec, path.key("bob").field("tags").size()) == [0]
    assert select_one(reader, spec, path.key("bob")) == {
        "name": "Bob", "tags": set(), "log": [],
    }  # fmt: skip
    assert select(reader, spec, path.key("eve")) == [None]
    assert select(reader, spec, path.must("eve")) == []
    assert select(reader, spec, path.key("eve", "name").null_to("?")) == ["?"]
    assert select(reader, spec, path.key("eve").field("log").size()) == [0]
    found = select(reader, spec, path.map_vals().field("name").filter(lambda n: "o" in n))
    assert found == ["Bob"]


def test_initial_values():
    """A scalar that was never written has its initial value."""
    reader, spec = Memory(1), pstate_spec(Declared(int, initial=3))
    assert select(reader, spec, path.stay()) == [3]
    assert select(reader, spec, path.filter(">", 5)) == []
    reader.vnodes[0][b"\x00"] = spec.codec().encode(9)
    assert select_one(reader, spec, Path()) == 9


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (path.key(1), "str"),
        (path.key("a", "b", "c"), "no keys"),
        (path.field("a").field("b"), "no keys"),
        (path.key("a").key("b").all(), "no elements"),
        (path.key("a").key("b").keys(), "no map"),
        (path.key("a").key("b").size(), "no size"),
        (path.key("a").key("b").sorted_range(), "not sorted"),
        (path.sorted_range(1), "str"),
        (path.key("a").map_vals().filter(">", "x"), "int"),
        (path.multi_path(path.key("a"), path.key(5)), "str"),
        (path.key(None), "None"),
    ],
    ids=range(11),
)
def test_paths_are_checked_before_reading(wrong, says):
    """Against the schema, with the number of the step; nothing is read."""
    reader, spec = stored(Map(str, Map(str, int)), {"a": {"b": 1}})
    reader.read.clear()
    if wrong.steps[0].name == "field":
        assert select(reader, spec, path.key("a")) == [{"b": 1}]
        reader.read.clear()
        wrong = path.key("a", "b").field("c")
    with pytest.raises(PathError) as caught:
        select(reader, spec, wrong)
    assert says in caught.value.message
    assert caught.value.context["step"] >= 0
    assert not reader.read


def test_unknown_fields_are_named():
    """With those that exist."""
    reader, spec = stored(Map(str, Struct(name=str, tags=Set(str))), {})
    with pytest.raises(PathError) as caught:
        select(reader, spec, path.key("a").field("nam"))
    assert "name, tags" in caught.value.hint


def test_one_means_one():
    """None and several are errors that say how many."""
    reader, spec = stored(Map(str, int), {"a": 1, "b": 2})
    for built, count in [(path.must("x"), "0"), (path.map_vals(), "2")]:
        with pytest.raises(PathError) as caught:
            select_one(reader, spec, built)
        assert count in caught.value.message


def test_texts_from_outside_become_the_schema_s_types():
    """Over JSON a date is a text; in Python a text is no date."""
    day = dt.date(2024, 2, 29)
    reader, spec = stored(Map(dt.date, Map(tuple[int, bytes], float)), {day: {(1, b"a"): 0.5}})
    built = path.key(day, (1, b"a"))
    assert select(reader, spec, built) == [0.5]
    assert select(reader, spec, from_json(built.to_json())) == [0.5]
    found = select(reader, spec, from_json([["sorted_range", {"end": "2025-01-01"}], ["size"]]))
    assert found == [1]
    for wrong in (path.key("2024-02-29"), from_json([["key", "yesterday"]])):
        with pytest.raises(PathError):
            select(reader, spec, wrong)


def test_sorted_sets():
    """Equal to sets, in order, and picklable."""
    import pickle

    found = SortedSet([3, 1, 2])
    assert found == {1, 2, 3}
    assert list(pickle.loads(pickle.dumps(found))) == [3, 1, 2]
    assert repr(found) == "SortedSet([3, 1, 2])"


def test_through_the_external_view(new_world):
    """The same over real stores, with work pending."""
    from atoll.codec.keys.elements import encode_key
    from atoll.pstate.view import PStateView

    spec = pstate_spec(Declared(Map(str, Map(int, int)), 4))
    world = new_world(vnodes=(0, 1, 2, 3))
    kinds = (spec.node.key, spec.node.value.key)

    def entries(content):
        changes = {vnode: {} for vnode in range(4)}
        for word, inner in content.items():
            for number, value in inner.items():
                key = encode_key((word, number), kinds)
                vnode = spec.vnode_of(encode_key((word,), kinds[:1]))
                changes[vnode][key] = spec.codec().encode(value)
        return changes

    content = {word: {n: n * 2 for n in range(100)} for word in "abcdef"}
    world.commit(world.run(entries(content)))
    world.run(entries({"a": {5: 0}, "zz": {1: 1}}))
    view = PStateView(world.stores, "counts", 4, world.history())
    assert select_one(view, spec, path.stay()) == content
    assert select(view, spec, path.keys()) == list(content)
    assert select(view, spec, path.key("a").sorted_range_to_end(2)) == [{98: 196, 99: 198}]
    assert select(view, spec, path.must("zz")) == []
