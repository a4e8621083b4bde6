"""Follows paths from places in one vnode to what they change there.

Down to a leaf, or to the part of an element-wise collection that the rest of the path is about:
that part is read, changed in memory, and the difference written. ``key(k).set(v)`` and
``key(k).delete()`` read nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from atoll.codec.keys.elements import DATA_END, EMPTY_KEY
from atoll.errors import StateError, kind_of_value
from atoll.path import VOID, Path, Step
from atoll.pstate.handles.writes import Writes
from atoll.pstate.navigate.changing import changed, giving, path_of_list
from atoll.pstate.navigate.places import Place, Places
from atoll.pstate.navigate.stored import StoredWalker
from atoll.pstate.navigate.walker import Collected, collect, default_of, passes
from atoll.pstate.spec import Position
from atoll.schema import Map, Node, Set, Struct

_Rest = Sequence[Step]


class WrittenReader:
    """Reads one vnode as a microbatch has written it so far."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    def get(self, vnode: int, key: bytes) -> bytes | None:  # noqa: ARG002  # the only one
        """The value of a key; the counters of sizes follow what the writer has."""
        if key >= DATA_END:
            self._writes.flush()
        return self._writes.get(key)

    def scan(
        self,
        vnode: int,  # noqa: ARG002  # the only one
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range in key order or backwards."""
        return islice(self._writes.scan(low, high, reverse=reverse), limit)


def check_vnode(writes: Writes, key: Any, encoded: bytes) -> None:
    """Hold that a key at the top of the PState lies in the vnode that is written.

    Raises:
        StateError: When it lies in another one.
    """
    spec, vnode = writes.spec, writes.vnode
    if spec.vnode_count > 1 and (wanted := spec.vnode_of(encoded)) != vnode:
        raise StateError(
            f"key {key!r} of {spec.name} lies in vnode {wanted}, this row in {vnode}",
            hint="let key= of process name the field that holds this key",
            pstate=spec.name,
            vnode_count=spec.vnode_count,
        )


class _OwnPlaces(Places):
    """Places of one vnode; a key of another one is an error."""

    def __init__(self, writes: Writes) -> None:
        super().__init__(WrittenReader(writes), writes.spec)
        self.writes = writes

    def through(self, place: Place, element: Any) -> tuple[bytes, int | None]:
        key, vnode = super().through(place, element)
        if not place.prefix:
            check_vnode(self.writes, element, key)
        return key, vnode


class StateChange:
    """Reads and changes one vnode's part of a PState along paths, from a handle's place on."""

    def __init__(self, writes: Writes, node: Node, position: Position, prefix: bytes) -> None:
        self._writes = writes
        self.places = _OwnPlaces(writes)
        self.walker = StoredWalker(self.places)
        self._start = Place(node, position, prefix, writes.vnode)

    def read(self) -> Any:
        """Everything at the place, as a value in memory."""
        return self.places.read(self._start)

    def select(self, fitted: Path) -> list[Any]:
        """Every value that a path leads to."""
        return list(self.walker.results(self._start, fitted))

    def transform(self, fitted: Path) -> None:
        """Change what a path that ends in a term leads to."""
        self.follow(self._start, fitted.steps, ())

    def follow(self, place: Place, steps: _Rest, collected: Collected) -> None:
        """Change what the steps lead to from a place, the last of them a term."""
        step, rest = steps[0], steps[1:]
        if place.node.leaf:
            self._leaf(place, steps, collected)
        elif (control := _CONTROLS.get(step.name)) is not None:
            control(self, place, step, rest, collected)
        else:
            self._stored(place, steps, collected)

    # -- leaves ---------------------------------------------------------------------------------

    def _leaf(self, place: Place, steps: _Rest, collected: Collected) -> None:
        match steps[0]:
            case Step("set", (value,)):
                self._write_leaf(place, value)
                return
            case Step("delete"):
                self._write_leaf(place, VOID)
                return
            case Step("must") if self.places.leaf(place) is None:
                return
        old = self.places.read(place)
        new = changed(old, steps, collected)
        if new is not old:
            self._write_leaf(place, new)

    def _write_leaf(self, place: Place, value: Any) -> None:
        key = place.prefix or EMPTY_KEY
        encoded = None if value is VOID else self._writes.spec.codec(place.position).encode(value)
        self._writes.unflushed[key] = encoded

    # -- element-wise places ----------------------------------------------------------------------

    def _stored(self, place: Place, steps: _Rest, collected: Collected) -> None:
        step, rest = steps[0], steps[1:]
        match step.name:
            case "key" | "field":
                self.follow(self.places.child(place, step.arguments[0]), rest, collected)
            case "must":
                child = self.places.child(place, step.arguments[0])
                if self.places.exists(child):
                    self.follow(child, rest, collected)
            case "map_vals":
                for _, child in list(self.places.children(place)):
                    self.follow(child._replace(known=None), rest, collected)
            case "set":
                self.write(place, self.places.read(place), step.arguments[0])
            case "delete":
                self._writes.clear(place.prefix)
            case "sorted_range" | "sub_map" | "subset":
                (part,) = self.walker.follow(place, step)
                self._write_part(place, part, changed(part, rest, collected))
            case _:
                old = self._part(place, step)
                self._write_part(place, old, changed(old, steps, collected))

    def _part(self, place: Place, step: Step) -> Any:
        """The part of an element-wise collection that a step is about."""
        match step.name:
            case "first" | "last":
                found = self.walker.follow(place, step)
                return frozenset(found) if isinstance(place.node, Set) else dict(found)
            case "map_key":
                (found,) = self.walker.follow(place, Step("sub_map", step.arguments))
                return found
            case "set_elem" | "void_set_elem":
                return frozenset(self.walker.follow(place, step))
        return self.places.read(place)

    def _write_part(self, place: Place, part: Any, new: Any) -> None:
        """Write what became of a part; where that has other keys, what was there before goes."""
        if isinstance(place.node, Map) and isinstance(new, Mapping):
            moved = ((key, self.places.child(place, key)) for key in new if key not in part)
            met = {key: self.places.read(child) for key, child in moved if not child.node.leaf}
            part = {**part, **met}
        self.write(place, part, new)

    def write(self, place: Place, old: Any, new: Any) -> None:
        """Write where a value differs from the old one; nothing else of the place is touched."""
        node = place.node
        if new is old:
            return
        if node.leaf:
            if not self._same(place, old, new):
                self._write_leaf(place, new)
        elif isinstance(node, Set):
            self._write_set(place, _checked(old, _SETS), _checked(new, _SETS))
        else:
            assert isinstance(node, Map | Struct)
            self._write_map(place, _checked(old, Mapping), _checked(new, Mapping))

    def _same(self, place: Place, old: Any, new: Any) -> bool:
        """Whether two values are stored as the same bytes."""
        if old is None or new is None or old is VOID or new is VOID:
            return False
        codec = self._writes.spec.codec(place.position)
        return codec.encode(old) == codec.encode(new)

    def _write_set(self, place: Place, old: Any, new: Any) -> None:
        olds, news = set(old), set(new)
        for element in [*(e for e in old if e not in news), *(e for e in new if e not in olds)]:
            key, _ = self.places.through(place, element)
            self._writes.unflushed[key] = b"" if element in news else None

    def _write_map(self, place: Place, old: Any, new: Any) -> None:
        for element in [e for e in old if e not in new]:
            child = self.places.child(place, element)
            self.write(child, old[element], VOID if child.node.leaf else None)
        for element, value in new.items():
            child = self.places.child(place, element)
            unset = value is None and child.node.leaf and isinstance(place.node, Struct)
            self.write(child, old.get(element, VOID), VOID if unset else value)


_SETS = (set, frozenset, list, tuple)


def _checked(value: Any, kinds: Any) -> Any:
    """What replaces an element-wise value; None and VOID are an empty one."""
    if value is None or value is VOID:
        return {}
    if isinstance(value, kinds):
        return value
    raise StateError(
        f"{kind_of_value(value)} cannot replace what is stored by element",
        hint="a dict can replace a map or struct, a set or list a set",
    )


# -- the steps that control where to go on ------------------------------------------------------

_Control = Callable[[StateChange, Place, Step, _Rest, Collected], None]


def _subselect(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    path = path_of_list(step)
    found = [change.walker.read(s) for s, _ in change.walker.walk(place, path.steps)]
    change.follow(place, (*path.steps, giving(changed(found, rest, c))), ())


def _stop(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    """Change nothing."""


def _several(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    for path in step.arguments:
        change.follow(place, (*path.steps, *rest), c)


def _branch(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    condition, then, *otherwise = step.arguments
    if change.walker.leads_anywhere(place, condition):
        change.follow(place, (*then.steps, *rest), c)
    elif otherwise:
        change.follow(place, (*otherwise[0].steps, *rest), c)


def _filter(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    if passes(change.places.read(place), step.arguments):
        change.follow(place, rest, c)


def _selected(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    wanted = step.name == "filter_selected"
    if change.walker.leads_anywhere(place, step.arguments[0]) is wanted:
        change.follow(place, rest, c)


def _collect(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    change.follow(place, rest, collect(change.walker, place, step, c))


def _is_collected(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    if step.arguments[0](*c):
        change.follow(place, rest, c)


def _null_to(change: StateChange, place: Place, step: Step, rest: _Rest, c: Collected) -> None:
    if change.walker.is_none(place):
        change.write(place, None, changed(default_of(step), rest, c))
    else:
        change.follow(place, rest, c)


_CONTROLS: dict[str, _Control] = {
    "stop": _stop,
    "subselect": _subselect,
    "filtered_list": _subselect,
    "multi_path": _several,
    "if_path": _branch,
    "filter": _filter,
    "filter_selected": _selected,
    "filter_not_selected": _selected,
    "collect": _collect,
    "collect_one": _collect,
    "put_collected": _collect,
    "dispense_collected": _collect,
    "is_collected": _is_collected,
    "null_to": _null_to,
    "null_to_list": _null_to,
    "null_to_set": _null_to,
}
"""Other steps see what they need of a place as a value in memory."""
