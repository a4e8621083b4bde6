"""State in memory, and one call of a function of ``process`` with it: for tests without a module.

A plain dict is not enough for such a test: it takes keys and values that do not fit the schema,
keys of other vnodes, and it remembers objects where a store remembers values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atoll.codec.detached import detached
from atoll.codec.keys.elements import encode_element
from atoll.ddl import parse_ddl
from atoll.errors import UsageError
from atoll.pstate.handles import handle_for
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Map, Node, Set, as_node
from atoll.topology.rows import batch_from_rows, row_type, rows_of, taken
from atoll.topology.usercode import declared_at

_VNODES = 16
_HANDED: set[int] = set()
"""Shared by all states, as by those of a step."""


@dataclass(frozen=True)
class _Declared:
    """What a module would have declared."""

    name: str
    node: Node
    vnode_count: int
    initial: Any
    module: str = "test"
    topology: str = "test"

    @property
    def is_global(self) -> bool:
        """Whether everything lies in one vnode."""
        return self.vnode_count == 1


class _Memory:
    """The entries of one vnode."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return self.entries.get(key)

    def put_many(self, keys: list[bytes], values: list[bytes | None]) -> None:
        """Set or remove entries."""
        for key, value in zip(keys, values, strict=True):
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries in key order, as they are now."""
        keys = [
            key
            for key in self.entries
            if (low is None or key >= low) and (high is None or key < high)
        ]
        return iter([(key, self.entries[key]) for key in sorted(keys, reverse=reverse)])


class State:
    """A PState in memory. Made by :func:`state`, changed by :func:`call`, read by :meth:`get`."""

    def __init__(self, spec: PStateSpec) -> None:
        self.spec = spec
        self._handles = [
            handle_for(spec, _Memory(), vnode, _HANDED) for vnode in range(spec.vnode_count)
        ]

    def get(self) -> Any:
        """Everything that it holds, as dicts, sets, lists and scalars, in the order of keys."""
        parts = [handle.copy() for handle in self._handles]
        kind = None if self.spec.vnode_count == 1 else type(self.spec.node)
        if kind is Set:
            return set().union(*parts)
        if kind is Map:
            key = self.spec.node.key  # type: ignore[union-attr]  # of a map
            entries = [entry for part in parts for entry in part.items()]
            return dict(sorted(entries, key=lambda entry: encode_element(entry[0], key)))
        return parts[0]

    def handle(self, vnode: int) -> Any:
        """The handle of one vnode, the same at each call."""
        return self._handles[vnode]

    def vnode_of(self, key: Any) -> int:
        """The vnode of a key; there is one where nothing is spread by key."""
        node = self.spec.node
        if self.spec.vnode_count == 1 or not isinstance(node, Map | Set):
            return 0
        kind = node.key if isinstance(node, Map) else node.item
        return self.spec.vnode_of(encode_element(key, kind)) or 0

    def fill(self, content: Any) -> None:
        """Hold this, in place of what it held."""
        node = self.spec.node
        if isinstance(node, Map | Set):
            for element in content:
                vnode = self.vnode_of(element)
                handle = self.handle(vnode)
                if isinstance(node, Map):
                    handle[element] = detached(content[element])
                else:
                    handle.add(element)
        elif node.leaf:
            self.handle(0).set(detached(content))
        else:
            self.handle(0).update(detached(content))
        for handle in self._handles:
            handle.end_call()


def state(
    schema: Any,
    content: Any = None,
    *,
    initial: Any = None,
    name: str = "state",
    vnode_count: int = _VNODES,
) -> State:
    """A PState in memory, for tests of functions of ``process``.

    Args:
        schema: As in ``mb.pstate(name, schema)``: ``Map(str, int)``, ``int``, ``Struct(...)``.
        content: What it holds at first.
        initial: The value of a scalar, list or struct that was never written.
        name: What errors call it.
        vnode_count: Into how many vnodes a map or set is spread by key; 1 for a global one.

    Raises:
        DeclarationError: When the schema or the initial value cannot be.
        StateError: When the content does not fit the schema.
    """
    node = as_node(schema)
    spread = vnode_count if isinstance(node, Map | Set) else 1
    made = State(pstate_spec(_Declared(name, node, spread, initial)))
    if content is not None:
        made.fill(content)
    return made


def call(
    function: Callable[..., Any],
    row: Any,
    *states: State,
    key: str | None = None,
    emits: str | None = None,
) -> list[Any]:
    """Call a function of ``process`` with one row, as a topology does.

    The function gets the row and a handle of each state, which reaches the vnode of the row's key.
    What it writes, and what it changes in place, is in the states when the call is done. When it
    raises, it has written nothing.

    Args:
        function: ``f(row, *handles)``.
        row: A dict of the columns, or any object that has them as attributes.
        states: Made by :func:`state`.
        key: The column by which the step is keyed, as in ``process(key=...)``; None when all
            states are global.
        emits: The columns that it declares, as in ``process(emits=...)``.

    Returns:
        The rows that it yielded or returned, as dicts; with ``emits=`` as the next step gets them.

    Raises:
        StateError: When a key or value does not fit, or a value was changed that no state sees.
        UserCodeError: When what it yielded does not fit ``emits=``.
        UsageError: When a state is spread by key and no ``key=`` is given.
    """
    if isinstance(row, Mapping):
        columns, row = row, row_type(tuple(row))()
        for name, value in columns.items():
            setattr(row, name, detached(value))
    handles = [each.handle(_vnode(each, row, key)) for each in states]
    for handle in handles:
        handle.savepoint()
    try:
        out = function(row, *handles)
        rows = [] if out is None or not hasattr(out, "__iter__") else list(map(taken, out))
        for handle in handles:
            handle.end_call()
            handle.check()
        if emits is not None:
            schema = parse_ddl(emits)
            batch = batch_from_rows(rows, schema, "process", declared_at(1))
            rows = [each.asdict() for each in rows_of(batch)]
    except BaseException:
        for handle in handles:
            handle.roll_back()
        raise
    return rows


def _vnode(of: State, row: Any, key: str | None) -> int:
    if key is not None:
        return of.vnode_of(getattr(row, key))
    if of.spec.vnode_count > 1:
        raise UsageError(
            f"{of.spec.name} is spread by key, and the call names none",
            hint='name the column: key="user"; or make a global one: vnode_count=1',
        )
    return 0
