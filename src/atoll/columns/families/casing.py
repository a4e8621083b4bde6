"""Lower and upper case.

Arrow's own maps letters one by one; Spark's knows the sharp s, the final sigma and the like, as
Python's does. Spark knows letters of a newer Unicode than some Pythons: they are mapped here.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, certified
from atoll.columns.tree import Call, Node
from atoll.columns.types import NotCertifiedError, words

_LOWER = {
    0x1C89: 0x1C8A,
    0xA7CB: 0x0264,
    0xA7CC: 0xA7CD,
    0xA7CE: 0xA7CF,
    0xA7D2: 0xA7D3,
    0xA7D4: 0xA7D5,
    0xA7DA: 0xA7DB,
    0xA7DC: 0x019B,
    **{each: each + 0x20 for each in range(0x10D50, 0x10D66)},
    **{each: each + 0x1B for each in range(0x16EA0, 0x16EB9)},
}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}


@certified("Text", "`lower(s)`, `upper(s)`", "string", "Lower", "Upper")
def _cased(reading: Reading, e: Any) -> Node:
    text = reading.node(e.this)
    if text.type != pa.string():
        raise NotCertifiedError(f"a text function of {words(text.type)}")
    kernel = _lowered if type(e).__name__ == "Lower" else _raised
    return Call(pa.string(), text.fails, kernel, (text,))


def _lowered(texts: pa.Array) -> pa.Array:
    if _is_ascii(texts):
        return pc.ascii_lower(texts)
    given = texts.to_pylist()
    made = [each if each is None else each.translate(_LOWER).lower() for each in given]
    return pa.array(made, pa.string())


def _raised(texts: pa.Array) -> pa.Array:
    if _is_ascii(texts):
        return pc.ascii_upper(texts)
    given = texts.to_pylist()
    made = [each if each is None else each.translate(_UPPER).upper() for each in given]
    return pa.array(made, pa.string())


def _is_ascii(texts: pa.Array) -> bool:
    return pc.all(pc.string_is_ascii(texts)).as_py() is not False
