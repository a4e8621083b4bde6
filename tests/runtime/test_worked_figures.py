"""The figures that Coral's pages work out: copies and the ring of keys.

Those of types stand with the types: the score 1606.9591 of a regression in
``actors/test_stateless.py``, the four formulas in ``test_formulas.py``, the windows abcde, cdefg
and efghi in ``test_interpreter.py``, 4,220 seconds in ``definition/test_states.py``. Five copies
of five instances are in ``examples/``.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from atoll.ddl import parse_ddl
from atoll.runtime.engine.intake import INTAKE_DDL, copies_of, copy_of_vnode, key_vnode, record
from atoll.runtime.engine.packing import packer, unpacked


def events(count, **parts):
    """So many events of the intake, one after the other."""
    made = [record("trigger", "a", {}, turn=at, at=0, **parts) for at in range(count)]
    return pa.RecordBatch.from_pylist(made, schema=parse_ddl(INTAKE_DDL))


def test_four_copies_begin_on_the_ring_where_corals_four_machines_do():
    """-2^63, -2^62, 0 and 2^62: the 256 vnodes are 256 equal pieces of that ring."""
    owners = [copy_of_vnode(vnode, 4) for vnode in range(256)]
    begins = [owners.index(copy) * 2**64 // 256 - 2**63 for copy in (1, 2, 3, 4)]
    assert begins == [-(2**63), -(2**62), 0, 2**62]


@pytest.mark.parametrize(("copies", "each"), [(4, 2_500), (10, 1_000)])
def test_ten_thousand_events_are_2500_for_each_of_four_and_a_thousand_for_each_of_ten(copies, each):
    """At 1 ms an event a copy takes 1,000 a second, so 10,000 a second need ten copies."""
    shares = Counter(copies_of(events(10_000), copies).tolist())
    assert shares == dict.fromkeys(range(1, copies + 1), each)


@pytest.mark.parametrize("key", [None, "amsterdam"])
def test_an_event_is_handed_on_once(key):
    """Coral's extra traffic is 2N for N events at most; here N, with a key and without."""
    vnode = key_vnode(key)
    rows = [
        row for batch in packer(4)(iter([events(1_000, vnode=vnode)])) for row in batch.to_pylist()
    ]
    assert sum(unpacked(row["records"]).num_rows for row in rows) == 1_000
