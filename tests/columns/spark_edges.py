"""The values at which meanings part: extremes, NaN, -0.0, surrogates, leap days, huge decimals."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

__all__ = ["WHOLE", "edge_values"]

UTC = dt.UTC
INTS = {8: "byte", 16: "short", 32: "int", 64: "long"}
TEXTS = [
    None, "", " ", "a", "A", "abc", "a_c", "a%c", "ab\nc", "line\r\nend", "héllo", "ß", "İstanbul",
    "ΟΔΟΣ ΟΔΟΣ", "ﬁ", "\U0001f600", "a\U0001f600b\U0001f601c", "\uffff", "\U00010000", "é",
    "e\u0301", "  x  ", "\tx\t", "\u3000x", "\u00a0x", "/a/b/c", "//", "?channel_id=&",
    "http://h/x?channel_id=7&b", "1", "+1", "-1", " 12 ", "007", "-0", "1.5", "1e3", "127", "128",
    "-128", "-129", "32768", "2147483647", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "1L", "0x1", "\u0661", "1\u3000", "\u00851",
    "\x011", "\x7f1", "+", "-", "+ 1", "true", " Yes ", "N", "tRuE", "of", "1e400", "-1e-400",
    "NaN", "-inf", " Infinity", "+nan", "0x1p3", "0x1.8p1d", "1d", "1.", ".5", ".", "1e", "1_0",
    "99999999999999999999999999999999999999", "123456789012345678901234567890.125", "0.005",
    "-0.0050000000000000000000001", "2020-02-29", "2021-02-29", "2020-2-3", "2020", "-0044-03-15",
    " 2020-1-1T9", "2020-01-01 x", "2020-01-01x", "20200101", "10000-01-01", "12345678-01-01",
    "5881580-07-12", "0000-01-01", "2020-13-01", "2020-00-01", "2020-01-00", "a.b.c", "a,b,,c,",
    "aab12", "x-9", "ab\u2028", "ab\u0085", "ab\r", "ab\n", "a\nb",
]  # fmt: skip
DOUBLES = [
    None, 0.0, -0.0, 1.0, -1.5, 2.5, -0.5, float("nan"), float("inf"), float("-inf"), 2.0**63,
    -(2.0**63), 2.0**63 - 1024, 2.0**31, 2147483647.5, -2147483648.9, -2147483649.0, 127.9, 128.0,
    -128.9, -129.0, 32767.5, 1e308, 5e-324, 9007199254740993.0, 1e15, 3.0, -3.0,
]  # fmt: skip
FLOATS = [
    None, 0.0, -0.0, 1.0, -1.5, 0.1, float("nan"), float("inf"), float("-inf"), 2.0**63, 2.0**31,
    -(2.0**63), -(2.0**31), 3.4028234e38, 1e-45, 16777216.0, 127.9, -129.0, 32767.5, 2.5,
]  # fmt: skip
EDGES = [0, 1, -1, 2, 3, -7, 10, 123]
MOMENTS = [
    None,
    dt.datetime(1970, 1, 1, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(2000, 2, 29, 12, 30, 15, 500000, tzinfo=UTC),
    dt.datetime(1900, 2, 28, 23, 0, tzinfo=UTC),
    dt.datetime(2024, 2, 29, 8, 59, 59, tzinfo=UTC),
    dt.datetime(1582, 10, 4, 1, tzinfo=UTC),
    dt.datetime(1, 1, 1, tzinfo=UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(2021, 1, 3, 0, 0, 0, 120000, tzinfo=UTC),
    dt.datetime(2020, 12, 31, 5, tzinfo=UTC),
    dt.datetime(2023, 1, 31, 13, 7, 9, 1, tzinfo=UTC),
]
FAR_DAYS = [None, 2**31 - 1, -(2**31), 0, 2932896, 2932897, -719528, -719529, 12_345_678, -1]
FAR_MICROS = [None, 2**62, -(2**62), 253402300800000000, -62167219200000001, 1, -1, 0]
ROWS = 600
WHOLE = list(INTS.values())


def edge_values() -> pa.RecordBatch:
    """Two columns of each type, whose rows hold every pair of its edge values."""
    values: dict[str, tuple[pa.DataType, list[object]]] = {}
    for bits, name in INTS.items():
        top = 2 ** (bits - 1)
        edges = [None, *EDGES, top - 1, -top, top - 2, -top + 1, top // 2]
        values[name] = (getattr(pa, f"int{bits}")(), edges)
    values["double"] = (pa.float64(), DOUBLES)
    values["float"] = (pa.float32(), FLOATS)
    values["text"] = (pa.string(), TEXTS)
    values["flag"] = (pa.bool_(), [None, True, False])
    values["at"] = (pa.timestamp("us", "UTC"), MOMENTS)
    plain = [each and each.replace(tzinfo=None) for each in MOMENTS]
    values["local"] = (pa.timestamp("us"), plain)
    values["far"] = (pa.date32(), FAR_DAYS)
    values["when"] = (pa.timestamp("us", "UTC"), FAR_MICROS)
    values["day"] = (pa.date32(), [each and each.date() for each in plain])
    for precision, scale in ((5, 2), (23, 3), (38, 10)):
        top = Decimal("9" * (precision - scale) + "." + "9" * scale)
        some = [Decimal(text) for text in ("0", "1", "-1", "0.01", "-2.50", "123.45")]
        half = [Decimal(text).scaleb(-scale) for text in ("5", "-5", "15", "14")]
        kind = pa.decimal128(precision, scale)
        values[f"dec{precision}"] = (kind, [None, *some, *half, top, top.copy_negate()])
    arrays: dict[str, pa.Array] = {}
    for name, (kind, edges) in values.items():
        count = len(edges)
        other = [(7 * n + n // count) % count for n in range(ROWS)]
        arrays[f"a_{name}"] = pa.array([edges[n % count] for n in range(ROWS)], kind)
        arrays[f"b_{name}"] = pa.array([edges[n] for n in other], kind)
    lists = [None, [], [1], [1, None, 3], [7, 8, 9, 10]]
    structs = [None, {"x": 1, "y": None}, {"x": None, "y": "é"}, {"x": 3, "y": "z"}]
    pair = pa.struct([("x", pa.int32()), ("y", pa.string())])
    maps = [None, [], [("a", 1)], [("a", None), ("é", 2)], [("b", 3), ("", 4)]]
    words = [None, [], ["a", None], ["", "a"], [None], ["é", "b"]]
    arrays["counts"] = pa.array(
        [maps[n % len(maps)] for n in range(ROWS)], pa.map_(pa.string(), pa.int32())
    )
    arrays["words"] = pa.array([words[n % len(words)] for n in range(ROWS)], pa.list_(pa.string()))
    arrays["items"] = pa.array([lists[n % len(lists)] for n in range(ROWS)], pa.list_(pa.int32()))
    arrays["pair"] = pa.array([structs[n % len(structs)] for n in range(ROWS)], pair)
    arrays["pairs"] = pa.array([[structs[n % 4]] for n in range(ROWS)], pa.list_(pair))
    return pa.RecordBatch.from_pydict(arrays)
