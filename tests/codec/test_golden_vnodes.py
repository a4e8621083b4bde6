"""Golden vectors of keys: their bytes and their vnodes, which stored data depends on for ever.

A change that breaks one of these makes every store that exists unreadable. Keys are written in
``golden_vnodes.json`` as JSON where JSON has the type, and as text or hex where it has not.
"""

from __future__ import annotations

import datetime as dt
import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from atoll.arrow_types import arrow_type
from atoll.codec import decode_key, encode_columns, encode_element
from atoll.placement.vnodes import vnode_of, vnodes_of
from atoll.schema import Scalar, from_json

VECTORS = json.loads((Path(__file__).parent / "golden_vnodes.json").read_text("utf-8"))

READERS = {
    "float": float,
    "bytes": bytes.fromhex,
    "date": dt.date.fromisoformat,
    "datetime": dt.datetime.fromisoformat,
    "decimal": Decimal,
}


def value_of(written: Any, scalar: Scalar) -> Any:
    """The key that the file writes."""
    if written is None:
        return None
    if scalar.kind == "tuple":
        return tuple(value_of(m, item) for m, item in zip(written, scalar.items, strict=True))
    return READERS.get(scalar.kind, lambda value: value)(written)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['kind']}-{vector['key']}")
def test_key_bytes_and_vnodes_never_change(vector: dict[str, Any]) -> None:
    """The scalar side, the vectorised side, the CRC and the vnodes are all as they were."""
    scalar = from_json(vector["kind"])
    value = value_of(vector["key"], scalar)
    encoded = encode_element(value, scalar)
    assert vector["hex"] == encoded.hex()
    assert encoded == encode_element(decode_key(encoded)[0], scalar)
    assert vector["crc"] == zlib.crc32(encoded)
    for count, vnode in vector["vnode"].items():
        assert vnode == vnode_of(encoded, int(count))
    if vector["column"]:
        ready = {"f0": value[0], "f1": value[1]} if isinstance(value, tuple) else value
        keys = encode_columns([pa.array([ready], arrow_type(scalar))], [scalar])
        assert [encoded] == keys.to_bytes()
        for count, vnode in vector["vnode"].items():
            assert [vnode] == vnodes_of(keys, int(count)).tolist()


def test_all_kinds_are_covered() -> None:
    """No kind's bytes may change unnoticed."""
    kinds = {from_json(vector["kind"]).kind for vector in VECTORS}
    assert kinds == {*READERS, "bool", "int", "str", "tuple"}
