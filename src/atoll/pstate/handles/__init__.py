"""State as a user's function sees it: dicts, sets and values over the vnode of its row.

A handle reads what the microbatch has written so far and collects what the function writes;
:meth:`Handle.flush` hands that to the vnode's writer, where it becomes part of the attempt's one
transaction. Everything is typed: a key or a value that does not fit the schema is an error at
the line that used it, or, where a value was changed in place, when the function's call is done.

A row's function runs where the vnode of its key lives. A handle reaches that vnode only, and
says so when it is asked for a key of another one.
"""

from __future__ import annotations

from atoll.codec.keys.elements import encode_element
from atoll.pstate.handles.base import KINDS, Handle
from atoll.pstate.handles.maps import MapHandle
from atoll.pstate.handles.sets import SetHandle
from atoll.pstate.handles.structs import StructHandle
from atoll.pstate.handles.values import ValueHandle
from atoll.pstate.handles.writes import EntryWriter, Writes
from atoll.pstate.spec import PStateSpec
from atoll.schema import Map, Scalar, Set, Struct

__all__ = [
    "Handle",
    "MapHandle",
    "SetHandle",
    "StructHandle",
    "ValueHandle",
    "handle_for",
    "handle_of_vnode",
]

KINDS.update({Map: MapHandle, Set: SetHandle, Struct: StructHandle})


def handle_for(
    spec: PStateSpec, writer: EntryWriter, vnode: int, handed: set[int] | None = None
) -> Handle:
    """The handle of a whole PState, within one vnode.

    Args:
        spec: What the PState is.
        writer: The open writer of the vnode.
        vnode: The vnode, which keys are checked against.
        handed: Shared by the handles of a step; see :class:`~atoll.pstate.handles.live.LiveValues`.
    """
    kind = ValueHandle if spec.node.leaf else KINDS[type(spec.node)]
    return kind(Writes(spec, writer, vnode, handed), spec.shape, b"")


def handle_of_vnode(
    spec: PStateSpec, writer: EntryWriter, vnode: int, handed: set[int] | None = None
) -> Handle:
    """The handle of a vnode's own value, of a PState with one in each; as :func:`handle_for`."""
    shape = spec.shape.value
    assert shape is not None, "such a PState is a map by vnode"
    kind = ValueHandle if shape.leaf else KINDS[type(shape.node)]
    return kind(Writes(spec, writer, vnode, handed), shape, encode_element(vnode, Scalar("int")))
