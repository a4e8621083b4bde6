"""Declares what a module reads of another one: mirrors of its depots and PStates.

A mirror is a name and the schema that the reader counts on; it holds no data. The other module
is looked up when this one is deployed. Mirrors are known as ``module.name``, which no depot or
PState can be called by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll.errors import DeclarationError
from atoll.stream.pstate import PState
from atoll.topology.declared import DepotDeclaration
from atoll.topology.usercode import check_columns, placed

if TYPE_CHECKING:
    from atoll.module import Module


def mirror_depot(
    reader: Module, module: str, name: str, schema: Any, place: str
) -> DepotDeclaration[Any]:
    """The mirror of a depot; the same one each time it is asked for.

    Raises:
        DeclarationError: When the schema is wrong, or the module is the reader itself.
    """
    from atoll.codec.spellings import columns_of

    known = _new(reader, module, f"{module}.{name}", reader.mirrored_depots, place)
    with placed(place):
        parsed = columns_of(schema)
        check_columns(parsed.names)
    made = DepotDeclaration(module, known, parsed, None, 0, mirrored=name, place=place)
    declared = made.of_class(schema)
    reader.mirrored_depots[known] = declared
    return declared


def mirror_pstate(reader: Module, module: str, name: str, schema: Any, place: str) -> PState[Any]:
    """The mirror of a PState.

    Raises:
        DeclarationError: When the schema is wrong, or the module is the reader itself.
    """
    from atoll.codec.spellings import node_of

    known = _new(reader, module, f"{module}.{name}", reader.mirrored_pstates, place)
    with placed(place):
        node = node_of(schema)
    declared: PState[Any] = PState(
        module,
        topology="",
        name=known,
        node=node,
        vnode_count=0,
        is_global=False,
        initial=None,
        place=place,
        mirrored=name,
        declared_as=schema,
    )
    reader.mirrored_pstates[known] = declared
    return declared


def _new(reader: Module, module: str, known: str, mirrors: dict[str, Any], place: str) -> str:
    if module == reader.name:
        raise DeclarationError(
            f"module {module!r} cannot mirror what is its own",
            hint="give source(...) the depot itself; a PState is read by the topology that owns it",
            declared=place,
        )
    if known in mirrors:
        raise DeclarationError(
            f"{known!r} is mirrored twice",
            hint="use the mirror that was declared first",
            declared=place,
        )
    return known
