"""Declares what a module reads and others keep: mirrors of their depots and PStates, and logs.

A mirror is a name and the schema that the reader counts on; it holds no data. The other module
is looked up when this one is deployed. Mirrors are known as ``module.name``, which no depot or
PState can be called by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll.depot.logs.declared import OutsideLog
from atoll.errors import DeclarationError
from atoll.stream.pstate import PState
from atoll.topology.declared import DepotDeclaration
from atoll.topology.usercode import check_columns, placed

if TYPE_CHECKING:
    import pyarrow as pa

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


_UNSAID = (None, 4, False, None, None, None)
"""What ``Module.depot`` gets of those who say nothing of partitions and retention."""


def log_depot(
    module: Module,
    name: str,
    log: OutsideLog,
    schema: tuple[Any, pa.Schema],
    others: tuple[Any, ...],
    place: str,
) -> DepotDeclaration[Any]:
    """The declaration of a depot that reads a log.

    Args:
        module: Whose it is.
        name: Checked and new.
        log: Where the records lie.
        schema: As the user wrote it, and parsed.
        others: What was said of partitions and retention, which are the log's.
        place: Where the user said so.

    Raises:
        DeclarationError: When something does not fit.
    """
    if not isinstance(log, OutsideLog):
        raise DeclarationError(
            f"depot {name!r} cannot read {log!r}",
            hint='give kafka=atoll.Kafka("host:9092", topic="bids")',
            declared=place,
        )
    if others != _UNSAID:
        raise DeclarationError(
            f"depot {name!r} has the partitions, the retention and the records of its log",
            hint="leave partition_by, partitions, is_global, retain_... and source out",
            declared=place,
        )
    given, parsed = schema
    with placed(place):
        log.check(parsed)
    made = DepotDeclaration(module.name, name, parsed, None, 0, place=place, log=log)
    module.logs[name] = made.of_class(given)
    return module.logs[name]
