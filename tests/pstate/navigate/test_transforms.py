"""Holds that transforms of stored state end as they would on plain values, and read little.

The model is a nested dict, changed by the same path in memory; the navigators in memory have
tests of their own.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import path
from atoll.codec.keys.elements import encode_element
from atoll.errors import PathError, StateError
from atoll.path import VOID, from_json
from atoll.pstate.handles import handle_for
from atoll.pstate.navigate.changing import transformed
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


class Vnode:
    """Session and reader over a dict, which counts the entries that are read."""

    def __init__(self):
        """Begin empty."""
        self.entries = {}
        self.order = []
        self.reads = 0
        self.written = set()

    def get(self, *address):
        """The value of a key, with or without a vnode before it."""
        self.reads += 1
        return self.entries.get(address[-1])

    def put_many(self, keys, values):
        """Set or remove entries."""
        for key, value in zip(keys, values, strict=True):
            self.written.add(key)
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value
        self.order = sorted(self.entries)

    def scan(self, *address, reverse=False, limit=None):
        """Entries of a range, with or without a vnode before it."""
        low, high = (*address, None, None)[-4:-2] if len(address) < 2 else address[-2:]
        start = 0 if low is None else bisect_left(self.order, low)
        end = len(self.order) if high is None else bisect_left(self.order, high)
        inside = self.order[start:end]
        for key in islice(reversed(inside) if reverse else inside, limit):
            self.reads += 1
            yield key, self.entries[key]


def made(node, content=None, **options):
    """(vnode, spec, handle) with this content."""
    spec = pstate_spec(Declared(node, **options))
    vnode = Vnode()
    handle = handle_for(spec, vnode, 0)
    if content is not None:
        handle.transform(path.set(content))
        handle.flush()
    vnode.reads = 0
    vnode.written = set()
    return vnode, spec, handle


def counted(vnode, handle, built):
    """How many entries a transform read."""
    vnode.reads = 0
    handle.transform(built)
    return vnode.reads


NODE = Map(str, Struct(n=int, tags=Set(int), days=Map(int, List(int))))
WORDS = st.sampled_from(["a", "b", "c", "d"])
SMALL = st.integers(0, 5)
USERS = st.dictionaries(
    WORDS,
    st.fixed_dictionaries({
        "n": SMALL,
        "tags": st.sets(SMALL),
        "days": st.dictionaries(SMALL, st.lists(SMALL, max_size=3)),
    }),
)  # fmt: skip


def _more(value):
    return (value or 0) + 1


def _tail(built):
    """Steps below a user."""
    tags, days = built.field("tags"), built.field("days")
    return st.one_of(
        st.just(built.field("n").term(_more)),
        st.just(built.field("n").filter(">", 2).set(0)),
        SMALL.map(lambda v: tags.void_set_elem().set(v)),
        SMALL.map(lambda v: tags.set_elem(v).delete()),
        SMALL.map(lambda v: tags.set_elem(v).term(_more)),
        st.just(tags.all().filter(lambda v: v % 2).delete()),
        st.just(tags.first().delete()),
        st.tuples(SMALL, SMALL).map(lambda ab: tags.subset(*ab).set({7, 8})),
        st.tuples(SMALL, SMALL).map(lambda ab: tags.sorted_range(*sorted(ab)).set([9])),
        SMALL.map(lambda v: days.key(v).after_elem().set(v)),
        SMALL.map(lambda v: days.key(v).delete()),
        SMALL.map(lambda v: days.must(v).set([v])),
        st.just(days.map_vals().all().term(_more)),
        st.just(days.map_vals().filter_selected(path.all().filter(">", 3)).delete()),
        st.just(days.keys().term(lambda k: k + 10)),
        SMALL.map(lambda v: days.map_key(v).set(20)),
        SMALL.map(lambda v: days.sub_map(v, v + 1).set({v: [0]})),
        st.tuples(SMALL, SMALL).map(lambda ab: days.sorted_range_from(*ab).delete()),
        SMALL.map(lambda v: days.sorted_range_to_end(v).set({})),
        st.just(days.last().nth(1).set([1, 2, 3])),
        st.just(days.all().filter(lambda e: not e[1]).delete()),
        st.just(days.set({})),
        st.just(days.delete()),
        st.just(path.Path(built.steps).subselect(path.field("days").map_vals()).term(
            lambda found: list(reversed(found)))),
        SMALL.map(lambda v: built.collect_one(path.field("n")).field("days").key(v).term(
            lambda n, days: [n or 0, *(days or [])])),
        SMALL.map(lambda v: built.if_path(path.field("tags").set_elem(v),
                                          path.field("n").set(v),
                                          path.field("tags").void_set_elem().set(v))),
        st.just(built.multi_path(path.field("n").term(_more), path.field("days").delete())),
    )  # fmt: skip


TRANSFORMS = st.one_of(
    WORDS.flatmap(lambda k: _tail(path.key(k))),
    WORDS.flatmap(lambda k: _tail(path.must(k))),
    _tail(path.map_vals()),
    WORDS.map(lambda k: path.key(k).delete()),
    WORDS.map(lambda k: path.map_key(k).set("z")),
    WORDS.map(lambda k: path.sorted_range(k).set({"y": {"n": 1, "tags": {2}, "days": {3: [4]}}})),
    st.just(path.last().delete()),
)


def _plain(value):
    """In stored order, without what is empty: an absent map and an empty one are the same."""
    if isinstance(value, dict):
        below = {k: _plain(v) for k, v in sorted(value.items())}
        return {k: v for k, v in below.items() if v not in (None, {}, set())}
    return value


def _model(content, built):
    """What the transform makes of plain values, empty users as the stored ones are: absent.

    A user that a path leads to by its key is of its type, whether it is there or not.
    """
    named = [step.arguments[0] for step in built.steps[:1] if step.name == "key"]
    whole = {
        word: {"n": None, "tags": set(), "days": {}} | content.get(word, {})
        for word in sorted({*content, *named})
        if word in named or _plain(content[word])
    }
    return _plain(transformed(whole, built))


@given(USERS, st.lists(TRANSFORMS, max_size=5), st.booleans())
def test_as_on_plain_values(content, transforms, flushing):
    """Any transforms one after the other, flushed between or not."""
    _, spec, handle = made(NODE, content)
    vnode = handle._writes.writer
    model = _plain(copy.deepcopy(content))
    for built in transforms:
        handle.transform(built)
        if flushing:
            handle.flush()
        model = _model(model, built)
        assert _plain(handle.select(path.stay())[0]) == model, str(built)
    handle.flush()
    assert _plain(select_one(vnode, spec, path.stay())) == model


def test_only_differences_are_written():
    """What a part of a collection has the same before and after gets no new value."""
    content = {"a": {"n": 1, "tags": set(range(50)), "days": {n: [n] for n in range(50)}}}
    vnode, _, handle = made(NODE, content)
    tags, days = path.key("a").field("tags"), path.key("a").field("days")
    for wanted, built in [
        (1, days.sorted_range(10, 20).term(lambda part: {**part, 12: [0]})),
        (2, tags.subset(1, 2).set({2, 60})),
        (1, days.all().filter(lambda e: e[0] == 5).delete()),
        (1, days.map_vals().filter("==", [7]).set([8])),
        (1, path.key("a").term(lambda user: {**user, "n": 7})),
        (2, days.map_key(30).set(99)),
        (0, days.keys().term(lambda key: key)),
        (0, days.map_vals().stop().set([1])),
        (0, days.map_vals().stop()),
        (1, days.map_vals().if_path(path.filter("==", [9]), path.set([0]), path.stop())),
        (0, tags.all().term(lambda tag: tag)),
    ]:
        vnode.written = set()
        handle.transform(built)
        handle.flush()
        assert len(vnode.written) == wanted, str(built)


MANY = {n: [n] for n in range(3000)}


def test_how_much_is_read():
    """Seeks and bounded scans: what a step is about, not the collection it stands in."""
    content = {"a": {"n": 1, "tags": set(range(3000)), "days": MANY}}
    vnode, spec, handle = made(NODE, content)
    tags, days = path.key("a").field("tags"), path.key("a").field("days")
    for most, built in [
        (0, days.key(7).set([1])),
        (0, days.key(8).delete()),
        (0, path.key("a").field("n").set(3)),
        (1, days.key(9).term(lambda v: [*v, 1])),
        (2, days.must(10).term(lambda v: [*v, 1])),
        (3, days.sub_map(1, 2, 3).term(lambda part: {})),
        (6, days.sorted_range(20, 25).term(lambda part: {})),
        (5, days.sorted_range_to_end(4).delete()),
        (2, days.last().delete()),
        (2, tags.set_elem(4).delete()),
        (0, tags.void_set_elem().set(5000)),
        (4, tags.subset(1, 2, 3).delete()),
    ]:
        handle.flush()
        assert counted(vnode, handle, built) <= 2 * most, str(built)
    handle.flush()
    for most, built in [
        (1, days.first()),
        (1, tags.last()),
        (3, days.sorted_range_from(50, 3)),
        (3, days.sorted_range_to(50, 3, include_end=True)),
        (1, days.must(60)),
        (2, tags.subset(50, 51)),
        (1, days.map_key(60)),
        (1, path.filter_selected(days.key(60)).key("a").field("n")),
        (2, path.filter_selected(days.first()).key("a").field("n")),
        (1, days.null_to(0).key(60)),
        (2, path.if_path(tags.set_elem(60), days.key(60))),
    ]:
        vnode.reads = 0
        select(vnode, spec, built)
        assert vnode.reads <= 2 * most + 1, str(built)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100, 2100])
@pytest.mark.parametrize("inner", [1, 31, 32, 33, 200])
def test_seeking_from_key_to_key(count, inner):
    """Keys of maps of maps, however many entries stand below each; forwards and backwards."""
    if count * inner > 20_000:
        count = 20_000 // inner
    vnode, spec, _ = made(Map(int, Map(int, int)), {n: dict.fromkeys(range(inner), 1)
                                                    for n in range(count)})  # fmt: skip
    assert select(vnode, spec, path.keys()) == list(range(count))
    assert select(vnode, spec, path.sorted_range_to_end(3).keys()) == list(range(count))[-3:]
    assert select(vnode, spec, path.size()) == [count]


def test_range_options():
    """Both bounds in or out, limits nearest to the bound; maps and sets, stored and in memory."""
    for node, whole in [
        (Map(int, int), {n: n for n in (1, 3, 5, 7)}),
        (Set(int), {1, 3, 5, 7}),
    ]:
        vnode, spec, _ = made(node, whole)
        for expected, built in [
            ([3], path.sorted_range(3, 5)),
            ([3, 5], path.sorted_range(3, 5, include_end=True)),
            ([5], path.sorted_range(3, 5, include_start=False, include_end=True)),
            ([], path.sorted_range(3, 5, include_start=False)),
            ([5, 7], path.sorted_range_from(3, include_start=False)),
            ([3], path.sorted_range_from(2, 1)),
            ([1, 3], path.sorted_range_to(5)),
            ([5], path.sorted_range_to(5, 1, include_end=True)),
            ([3], path.sorted_range_to(5, 1)),
            ([1], path.sorted_range_from_start(1)),
            ([5, 7], path.sorted_range_to_end(2)),
            ([], path.sorted_range_to_end(0)),
            ([], path.sorted_range(7, 3)),
        ]:
            in_memory = path.Path((*path.view(lambda v: v).steps, *built.steps))
            for each in (built, from_json(built.to_json()), in_memory):
                (found,) = select(vnode, spec, each)
                assert list(found) == expected, str(each)


def test_a_whole_struct_and_its_fields():
    """A struct that is one value is read and written once, however many fields change."""
    node = Map(str, Struct(a=int, b=int))
    vnode, spec, handle = made(node, {"x": {"a": 1, "b": 2}})
    fields = path.key("x").multi_path(path.field("a").term(_more), path.field("b").set(9))
    assert counted(vnode, handle, fields) == 1
    handle.transform(path.key("x").field("a").filter(">", 100).set(0))
    handle.flush()
    assert select_one(vnode, spec, path.stay()) == {"x": {"a": 2, "b": 9}}
    handle.transform(path.key("x").field("b").delete())
    handle.transform(path.key("y").key("a").set(1))
    handle.flush()
    assert select_one(vnode, spec, path.stay()) == {
        "x": {"a": 2, "b": None}, "y": {"a": 1, "b": None},
    }  # fmt: skip


def test_values_without_keys():
    """A PState that is one value, and nested handles."""
    _, _, handle = made(int, initial=3)
    handle.transform(path.term(_more))
    assert handle.get() == 4
    handle.transform(path.delete())
    assert handle.get() == 3
    _, _, users = made(NODE)
    users["a"]["days"].transform(path.key(1).set([1]))
    assert users["a"]["days"].select(path.all()) == [(1, [1])]
    assert users.select(path.key("a").field("days").key(1)) == [[1]]


def test_optional_values():
    """A key whose value is None is there; writing one is no deletion."""
    vnode, spec, handle = made(Map(str, as_node(int | None)), {"a": None})
    handle.transform(path.sub_map("b").set({"b": None}))
    handle.transform(path.key("c").set(None))
    handle.flush()
    assert select_one(vnode, spec, path.stay()) == dict.fromkeys("abc")
    handle.transform(path.key("a").term(lambda v: VOID))
    handle.flush()
    assert select(vnode, spec, path.keys()) == ["b", "c"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (path.key("a"), "does not say what"),
        (path.stay(), "does not say what"),
        (path.key("a").set(1).key("b"), "nothing can follow"),
        (path.key("a").field("tags").size().set(1), "cannot be written"),
        (path.multi_path(path.key("a").delete(), path.key("b")), "does not say what"),
        (path.multi_path(path.key("a").delete()).key("b").delete(), "only read"),
        (path.filter_selected(path.key("a").delete()).key("a").delete(), "only read"),
        (path.key("a").field("n").set("x"), "str"),
        (path.key(1).delete(), "str"),
        (path.key("a").field("tags").set_elem("x").delete(), "int"),
        (path.key("a").field("tags").key(1).delete(), "no keys"),
    ],
    ids=range(11),
)
def test_wrong_transforms_are_refused(wrong, says):
    """Before anything is read or written, with the number of the step."""
    vnode, _, handle = made(NODE, {"a": {"n": 1, "tags": {1}, "days": {}}})
    with pytest.raises(PathError) as caught:
        handle.transform(wrong)
    assert says in caught.value.message
    assert caught.value.hint
    handle.flush()
    assert not vnode.reads
    assert not vnode.written


def test_reads_refuse_terms():
    """A path that writes is no way to read, from Python and from outside."""
    vnode, spec, handle = made(NODE)
    for wrong in (path.key("a").delete(), from_json([["key", "a"], ["delete"]])):
        for reading in (lambda p: select(vnode, spec, p), handle.select):
            with pytest.raises(PathError) as caught:
                reading(wrong)
            assert "only read" in caught.value.message


def test_values_must_fit():
    """What a transform makes is checked as what a handle is given."""
    _, _, handle = made(NODE, {"a": {"n": 1, "tags": {1}, "days": {}}})
    for wrong in (
        path.key("a").field("n").term(str),
        path.key("a").set(5),
        path.key("a").field("tags").set(7),
        path.key("a").field("days").set([1]),
        path.key("a").field("days").key(1).set({1: 2}),
    ):
        with pytest.raises(StateError):
            handle.transform(wrong)
    with pytest.raises(PathError):
        handle.transform(path.key("a").term(lambda user: {"unknown": 1}))


def test_keys_of_other_vnodes_are_refused():
    """A transform reaches the vnode of its row, as a handle does."""
    spec = pstate_spec(Declared(Map(str, int), vnode_count=16))
    own = spec.vnode_of(encode_element("a", spec.node.key))
    handle = handle_for(spec, Vnode(), own)
    handle.transform(path.key("a").set(1))
    other = next(w for w in "bcdefgh" if spec.vnode_of(encode_element(w, spec.node.key)) != own)
    for wrong in (path.key(other).set(1), path.map_key("a").set(other)):
        with pytest.raises(StateError) as caught:
            handle.transform(wrong)
        assert "lies in vnode" in caught.value.message
