"""How keys, values and records become bytes and columns, and come back."""

from atoll.codec.keys.columns import KeyColumn, empty_keys, encode_columns
from atoll.codec.keys.decode import decode_columns
from atoll.codec.keys.elements import (
    EMPTY_KEY,
    decode_key,
    encode_element,
    encode_key,
    prefix_range,
    successor,
)
from atoll.codec.values.fields import FieldLayout
from atoll.codec.values.leaf import LeafCodec, leaf_codec

__all__ = [
    "EMPTY_KEY",
    "FieldLayout",
    "KeyColumn",
    "LeafCodec",
    "decode_columns",
    "decode_key",
    "empty_keys",
    "encode_columns",
    "encode_element",
    "encode_key",
    "leaf_codec",
    "prefix_range",
    "successor",
]
