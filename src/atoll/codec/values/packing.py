"""What aggregates are handed to keep Python values and keys in the columns of their states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.aggregates.base import Packing, PlainForms
from atoll.codec.keys.columns import encode_columns
from atoll.codec.keys.orders import order_bytes
from atoll.codec.values.leaf import leaf_codec
from atoll.codec.values.opaque import decode_plain, encode_plain, pack, plain_forms_sort, unpack

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.aggregates.base import EncodedKeys
    from atoll.schema import Scalar


def _keys(column: pa.Array, kind: Scalar) -> EncodedKeys:
    return encode_columns([column], [kind])


PACKING = Packing(
    pack,
    unpack,
    PlainForms(encode_plain, decode_plain, plain_forms_sort),
    _keys,
    leaf_codec,
    order_bytes,
)
