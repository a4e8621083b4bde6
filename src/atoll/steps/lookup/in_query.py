"""``lookup`` in queries: one process reads all vnodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.engine.exchange.packing import KeyedPacker, packed_whole
from atoll.placement.mapping import Mapping
from atoll.steps.lookup.bind import bound_lookup
from atoll.steps.lookup.run import look_up
from atoll.topology.binding import StepName

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.pstate.view import MigratedVnode, VnodeView
    from atoll.steps.lookup.declare import Lookup
    from atoll.topology.querying.step import Done, InQuery, Reading

_UNIT = 0


def looks_up(step: Lookup, query: InQuery) -> Done:
    """Adds an entry's value to each row: the rows of a vnode with one read.

    The vnodes are read one after the other: in threads that share Python's lock it takes longer.

    Raises:
        DeclarationError: When a key is no column of the rows, or of another type.
    """
    emitted = step.schema(query.inputs)
    spec = query.specs[step.target.pstate.name]
    bound = bound_lookup(step, StepName(0, step.title, step.place), query.rows, spec, ())

    def run(tables: list[pa.Table], reading: Reading) -> pa.Table:
        packer = KeyedPacker(bound, Mapping.even(spec.vnode_count, (_UNIT,)))
        packed = packed_whole(packer, tables[0])
        if packed is None:
            return emitted.empty_table()
        view = reading.view(bound.pstate)

        def vnode(number: int) -> VnodeView | MigratedVnode:
            reading.check()
            return view.vnode(number)

        with bound.blamed():
            return look_up(bound, [packed], vnode)

    return emitted, run
