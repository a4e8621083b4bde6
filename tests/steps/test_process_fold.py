"""Holds that `process` is a fold in plain Python, whatever a function does to the values it gets.

A seed makes a schema, and rows of operations: values read in every way, changed in place in every
way that lists, dicts and sets know, put in and changed afterwards, held, popped, copied to other
keys. Each row runs on the state and on plain dicts; what it saw and what it left must be equal,
down to the sign of a zero. Plain dicts differ from a state in what the documentation says: nested
maps and sets are there without preparation and gone when they are empty, a struct always has all
its fields, and what comes from a state is copied when it is put into one.
"""

from __future__ import annotations

import copy
import heapq
import os
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from atoll import List, Map, Set, Struct
from atoll.pstate.handles import Handle
from atoll.schema import Scalar, as_node
from atoll.testing import call, state

EXAMPLES = 4_000 if os.environ.get("ATOLL_SOAK") else 250
KEYS = ["", "a", "b", "c\0"]
LEAVES = [
    int,
    float,
    str,
    tuple[int, str],
    List(int),
    List(float),
    List(str),
    List(tuple[int, float]),
    List(List(int)),
    List(Struct(n=int, tags=List(str))),
    List(Set(int)),
    List(Map(str, List(int))),
    Struct(n=int, total=float),
    Struct(n=int, who=str, log=List(int)),
    Struct(inner=Struct(xs=List(int), y=float), n=int),
]
APART = [
    Set(str),
    Struct(n=int, seen=Set(int)),
    Struct(log=List(int), by=Map(str, Struct(n=int, xs=List(int))), seen=Set(str)),
]


def a_value_node(rng, depth=2):
    """What a map holds."""
    kind = rng.randrange(6)
    if depth and kind == 0:
        return Map(str, a_value_node(rng, depth - 1))
    return as_node(rng.choice(APART if kind == 1 else LEAVES))


def a_value(rng, node):
    """A whole value."""
    few = range(rng.randrange(4))
    match node:
        case Scalar("int"):
            return rng.randrange(-3, 4)
        case Scalar("float"):
            return rng.choice([0.0, -0.0, 1.5, -2.0])
        case Scalar("str"):
            return rng.choice(KEYS)
        case Scalar("tuple", _, items):
            return tuple(a_value(rng, item) for item in items)
        case List(item):
            return [a_value(rng, item) for _ in few]
        case Set(item):
            return {a_value(rng, item) for _ in few}
        case Map(key, value):
            return {a_value(rng, key): a_value(rng, value) for _ in few}
        case Struct(fields):
            return {name: a_value(rng, field) for name, field in fields}


class Auto(dict):
    """A plain map of which nested parts come to be when they are asked for."""

    def __init__(self, node, content=()):
        """Of this schema."""
        super().__init__(content)
        self.node = node

    def __missing__(self, key):
        """A new nested part."""
        self[key] = in_python(self.node.value, {})
        return self[key]

    def __setitem__(self, key, value):
        """Nested parts are of their kinds."""
        super().__setitem__(key, in_python(self.node.value, value))

    def update(self, other):
        """As assigning."""
        for key, value in other.items():
            self[key] = value

    def __ior__(self, other):
        """As assigning."""
        self.update(other)
        return self

    def setdefault(self, key, default):
        """As assigning; an empty part is as good as none."""
        inner = self.node.value
        if key not in self or (not inner.leaf and is_empty(inner, self[key])):
            self[key] = default
        return self[key]


def in_python(node, value):
    """The plain dicts and sets that stand for an element-wise value; leaves as they are."""
    if node.leaf:
        return value
    if isinstance(node, Map):
        made = Auto(node)
        made.update(value)
        return made
    if isinstance(node, Set):
        return set(value)
    return {
        name: value.get(name) if member.leaf else in_python(member, value.get(name) or {})
        for name, member in node.fields
    }


def pruned(node, value):
    """Take empty nested parts out."""
    if node.leaf or isinstance(node, Set):
        return
    below = value.items() if isinstance(node, Map) else [(n, value[n]) for n in node.names()]
    for key, item in list(below):
        inner = node.value if isinstance(node, Map) else node.get(key)
        pruned(inner, item)
        if isinstance(node, Map) and not inner.leaf and is_empty(inner, item):
            del value[key]


def is_empty(node, value):
    """Whether a store holds nothing of it."""
    if isinstance(node, Struct):
        return all(
            value[name] is None if member.leaf else is_empty(member, value[name])
            for name, member in node.fields
        )
    if isinstance(node, Map) and not node.value.leaf:
        return all(is_empty(node.value, item) for item in value.values())
    return not value


def seen(value):
    """A copy of what a function sees, comparable as text."""
    value = value.copy() if isinstance(value, Handle) else copy.deepcopy(value)
    return as_text(value)


def as_text(value):
    """Exact, and without an order where there is none."""
    if isinstance(value, Auto) and not value.node.value.leaf:
        inner = value.node.value
        value = {key: item for key, item in value.items() if not is_empty(inner, item)}
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{k!r}:{as_text(v)}" for k, v in value.items())) + "}"
    if isinstance(value, set | frozenset):
        return "set" + repr(sorted(value))
    if isinstance(value, list):
        return "[" + ",".join(map(as_text, value)) + "]"
    return repr(value)


# -- what a function may do ---------------------------------------------------------------------


def change(rng, value, node):
    """Change a value in place, or something in it; nothing where it cannot be changed."""
    match node:
        case List():
            change_list(rng, value, node)
        case Struct():
            change_struct(rng, value, node)
        case Map():
            change_map(rng, value, node)
        case Set():
            change_set(rng, value, node)


def change_list(rng, value, node):  # noqa: C901, PLR0912  # a case per way
    """In every way that lists know, and some that go around their methods."""
    item = a_value(rng, node.item)
    at = rng.randrange(len(value)) if value else 0
    inside = value and not isinstance(node.item, Scalar) and rng.random() < 0.5
    if inside:
        change(rng, value[at], node.item)
        return
    match rng.randrange(16):
        case 0:
            value.append(item)
        case 1:
            value.extend([item, copy.deepcopy(item)])
        case 2:
            value.insert(at, item)
        case 3:
            value += [item]
        case 4:
            value[at:] = [item]
        case 5:
            del value[at:]
        case 6:
            value.reverse()
        case 7:
            value.sort(key=as_text)
        case 8 if value:
            value[at] = item
        case 9 if value:
            value.pop(at)
        case 10 if value:
            value.remove(value[at])
        case 11:
            value.clear()
        case 12 if isinstance(node.item, Scalar):
            heapq.heapify(value)
            heapq.heappush(value, item)
        case 13:
            list.append(value, item)
        case 14 if isinstance(node.item, Scalar):
            value *= 2
            del value[8:]
        case 15 if value:
            del value[at]
        case _:
            value[:] = [item, *value][:6]


def change_struct(rng, value, node):
    """In every way that dicts know that keeps the fields."""
    name, member = rng.choice(node.fields)
    if name in value and not isinstance(member, Scalar) and rng.random() < 0.5:
        change(rng, value[name], member)
        return
    match rng.randrange(5):
        case 0:
            value[name] = a_value(rng, member)
        case 1:
            value.update({name: a_value(rng, member)})
        case 2:
            value |= {name: a_value(rng, member)}
        case 3 if isinstance(member, Scalar) and isinstance(value.get(name), int | float | str):
            value[name] += a_value(rng, member)
        case _:
            dict.__setitem__(value, name, a_value(rng, member))


def change_map(rng, value, node):
    """In every way that dicts know."""
    key = rng.choice(KEYS)
    match rng.randrange(7):
        case 0:
            value[key] = a_value(rng, node.value)
        case 1:
            change(rng, value.setdefault(key, a_value(rng, node.value)), node.value)
        case 2:
            value.pop(key, None)
        case 3 if value:
            del value[min(value)]
        case 4:
            value.clear()
        case 5:
            value |= {key: a_value(rng, node.value)}
        case _:
            for each in sorted(value):  # stored maps are sorted
                change(rng, value[each], node.value)


def change_set(rng, value, node):
    """The same of a set, be it a plain one or a handle."""
    item, others = a_value(rng, node.item), a_value(rng, node)
    match rng.randrange(10):
        case 0:
            value.add(item)
        case 1:
            value.discard(item)
        case 2:
            value.update(others)
        case 3:
            value |= others
        case 4:
            value &= others
        case 5:
            value -= others
        case 6:
            value ^= others
        case 7 if item in value:
            value.remove(item)
        case 8:
            value.difference_update(others)
        case _:
            value.symmetric_difference_update(others)


def act(rng, at, node, held, out):
    """Do something to a map, a set or a struct that is stored by element."""
    if isinstance(node, Set):
        change_set(rng, at, node)
    elif isinstance(node, Struct):
        name, member = rng.choice(node.fields)
        if not member.leaf:
            act(rng, at[name], member, held, out)
        elif rng.random() < 0.5 and at[name] is not None:
            change(rng, at[name], member)
        else:
            at[name] = a_value(rng, member)
        out.append(seen(at[name]))
    elif node.value.leaf:
        on_leaves(rng, at, node.value, held, out)
    else:
        on_parts(rng, at, node.value, held, out)


def on_leaves(rng, at, node, held, out):  # noqa: C901, PLR0912  # a case per way
    """Do something to a map of leaves."""
    key, other, value = rng.choice(KEYS), rng.choice(KEYS), a_value(rng, node)
    match rng.randrange(18):
        case 0:
            at[key] = value
        case 1:
            at[key] = value
            change(rng, value, node)
        case 2:
            at[key] = at[other] = value
            change(rng, value, node)
        case 3:
            change(rng, at.setdefault(key, value), node)
        case 4:
            change(rng, at.get(key, value), node)
        case 5:
            for each in at.values():
                change(random.Random(7), each, node)
        case 6:
            for name, each in sorted(at.items(), key=lambda item: item[0]):
                change(random.Random(name), each, node)
        case 7 if key in at:
            held.append((node, at[key]))
        case 8 if key in at:
            value = at.pop(key)
            change(rng, value, node)
            at[other] = value
            change(rng, value, node)
        case 9 if key in at:
            del at[key]
        case 10 if key in at:
            apart = isinstance(at, Auto) and at.get(other) is not at[key]
            at[other] = copy.deepcopy(at[key]) if apart else at[key]
        case 11 if key in at and isinstance(node, List):
            at[key] += value
        case 12 if key in at and isinstance(node, Struct):
            at[key] |= value
        case 13 if key in at and isinstance(node, Scalar) and node.kind != "tuple":
            at[key] += value
        case 14:
            at.update({key: value})
            change(rng, value, node)
        case 15:
            at |= {key: value}
        case 16 if rng.random() < 0.2:
            at.clear()
        case _ if key in at:
            found = at[key]
            change(rng, found, node)
            at[key] = found
            change(rng, found, node)
    out.append(seen(at.get(key)))


def is_there(at, key):
    """Whether there is anything under a key."""
    return key in at and not (isinstance(at, Auto) and is_empty(at.node.value, at[key]))


def on_parts(rng, at, node, held, out):
    """Do something to a map of what is stored by element itself."""
    key, other, value = rng.choice(KEYS), rng.choice(KEYS), a_value(rng, node)
    match rng.randrange(10):
        case 0:
            at[key] = value
        case 1 if value:
            act(rng, at.setdefault(key, value), node, held, out)
        case 2 if is_there(at, key):
            out.append(seen(at.pop(key)))
        case 3 if is_there(at, key):
            del at[key]
        case 4 if is_there(at, key):
            at[other] = at[key].copy() if isinstance(at[key], Handle) else fresh(at[key])
        case 5:
            at[key] = at[key]
        case 6 if isinstance(node, Map | Set):
            at[key] |= value
        case 7:
            for name in [each for each in sorted(at) if is_there(at, each)]:
                act(random.Random(name), at[name], node, held, out)
        case _:
            act(rng, at[key], node, held, out)
    out.append(seen(at[key]) if is_there(at, key) else None)


def a_row(rng, node):
    """A function of `process`; it may change what it read long before."""
    seeds = [rng.randrange(2**32) for _ in range(rng.randrange(1, 8))]

    def function(row, at):
        held = []
        for seed in seeds:
            own = random.Random(seed)
            if held and own.random() < 0.3:
                kind, value = held[own.randrange(len(held))]
                change(own, value, kind)
            else:
                act(own, at, node, held, row.out)
            if isinstance(at, Auto):
                pruned(node, at)

    return function


class Row:
    """A row that remembers what its function saw."""

    def __init__(self):
        """Nothing yet."""
        self.out = []


@settings(derandomize=True, max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2**48))
def test_process_is_a_fold_in_python(seed):
    """Row by row, what functions see and what they leave."""
    rng = random.Random(seed)
    node = Map(str, a_value_node(rng))
    kept = state(node, vnode_count=1)
    model = in_python(node, {})
    for _ in range(rng.randrange(1, 7)):
        function = a_row(rng, node)
        expected, got = Row(), Row()
        function(expected, model)
        call(function, got, kept)
        model = in_python(node, fresh(model))
        assert got.out == expected.out
        assert as_text(kept.get()) == as_text(model)


def fresh(value):
    """The value with no object in it twice."""
    if isinstance(value, dict):
        return {key: fresh(item) for key, item in value.items()}
    if isinstance(value, list):
        return [fresh(item) for item in value]
    return set(value) if isinstance(value, set) else value
