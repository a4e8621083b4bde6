r"""Orders of several terms as bytes: what sorts as the terms do, some of them the other way round.

A term is the bytes of a key's element; one that falls is their complement. Elements that are
texts may begin with each other's bytes (``a`` ends in ``00``, ``a\x00`` goes on with ``00 FF``),
so what stands behind a term must be above ``00`` and below ``FF``: every tag is, its complement as
well, and so is the byte at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from atoll.arrow_types import node_of
from atoll.codec.keys.columns import KeyColumn, encode_columns
from atoll.codec.keys.elements import encode_element
from atoll.schema import Scalar

TERM_END = b"\x01"
"""Behind the last term: what is compared with it is above ``00`` and below ``FF``."""

_COMPLEMENT = bytes(255 - byte for byte in range(256))


def encode_orders(
    columns: Sequence[pa.Array], kinds: Sequence[Scalar], falling: Sequence[bool]
) -> list[bytes]:
    """The terms of each row, one after the other, nothing behind them."""
    parts = [
        turned(encode_columns([column], [kind]), falls)
        for column, kind, falls in zip(columns, kinds, falling, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    return list(map(b"".join, zip(*parts, strict=True)))


def encode_order(
    values: Sequence[object], kinds: Sequence[Scalar], falling: Sequence[bool]
) -> bytes:
    """The terms of one row; fewer values than terms give where rows begin that have them."""
    terms = zip(values, kinds, falling, strict=False)
    return b"".join(_turn(encode_element(value, kind), falls) for value, kind, falls in terms)


def turned(keys: KeyColumn, falls: bool) -> list[bytes]:  # noqa: FBT001 - a term's own
    """The elements as they are, or their complements."""
    encoded = keys.to_bytes()
    return [each.translate(_COMPLEMENT) for each in encoded] if falls else encoded


def order_bytes(columns: Sequence[pa.Array], falling: Sequence[bool]) -> pa.Array:
    """One binary column that sorts as the columns do; null where the first one is."""
    first = columns[0]
    nodes = [node_of(each.type) for each in columns]
    kinds = [each for each in nodes if isinstance(each, Scalar)]
    assert len(kinds) == len(nodes), "checked when the order was bound"
    made = encode_orders(columns, kinds, falling)
    data = [each + TERM_END for each in made]
    if not first.null_count:
        return pa.array(data, pa.binary())
    held = first.is_valid().to_pylist()
    return pa.array(
        [each if there else None for each, there in zip(data, held, strict=True)], pa.binary()
    )


def _turn(encoded: bytes, falls: bool) -> bytes:  # noqa: FBT001 - a term's own
    return encoded.translate(_COMPLEMENT) if falls else encoded
