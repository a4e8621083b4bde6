"""Spark is the definition: every certified form gives what Spark gives, bit for bit.

Many expressions of every form, over pairs of edge values of every type, in a few Spark queries.
Each is computed by Spark in its ANSI mode (``TryEval`` says on which rows it fails), and by
``atoll.columns``: types, values and the rows that fail must be the same.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
import struct
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from atoll.columns.reading import computed
from atoll.columns.tree import Node, RowError, Rows
from atoll.columns.types import NotCertifiedError

UTC = dt.UTC
INTS = {8: "byte", 16: "short", 32: "int", 64: "long"}
TEXTS = [
    None, "", " ", "a", "A", "abc", "a_c", "a%c", "ab\nc", "line\r\nend", "héllo", "ß", "İstanbul",
    "ΟΔΟΣ ΟΔΟΣ", "ﬁ", "\U0001f600", "a\U0001f600b\U0001f601c", "\uffff", "\U00010000", "é",
    "e\u0301", "  x  ", "\tx\t", "\u3000x", "\u00a0x", "/a/b/c", "//", "?channel_id=&",
    "http://h/x?channel_id=7&b", "1", "+1", "-1", " 12 ", "007", "-0", "1.5", "1e3", "127", "128",
    "-128", "-129", "32768", "2147483647", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "1L", "0x1", "\u0661", "1\u3000", "\u00851",
    "\x011", "\x7f1", "+", "-", "+ 1", "true",
]  # fmt: skip
DOUBLES = [
    None, 0.0, -0.0, 1.0, -1.5, 2.5, -0.5, float("nan"), float("inf"), float("-inf"), 2.0**63,
    -(2.0**63), 2.0**63 - 1024, 2.0**31, 2147483647.5, -2147483648.9, -2147483649.0, 127.9, 128.0,
    -128.9, -129.0, 32767.5, 1e308, 5e-324, 9007199254740993.0, 1e15, 3.0, -3.0,
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
]
ROWS = 600
DRAWN_MIN = 100
BAD_ROWS_MAX = 20
"""Of the rows on which Spark fails so many are tried one by one."""


def _table() -> pa.RecordBatch:
    """Two columns of each type, whose rows hold every pair of its edge values."""
    values: dict[str, tuple[pa.DataType, list[object]]] = {}
    for bits, name in INTS.items():
        top = 2 ** (bits - 1)
        edges = [None, *EDGES, top - 1, -top, top - 2, -top + 1, top // 2]
        values[name] = (getattr(pa, f"int{bits}")(), edges)
    values["double"] = (pa.float64(), DOUBLES)
    values["text"] = (pa.string(), TEXTS)
    values["flag"] = (pa.bool_(), [None, True, False])
    values["at"] = (pa.timestamp("us", "UTC"), MOMENTS)
    plain = [each and each.replace(tzinfo=None) for each in MOMENTS]
    values["local"] = (pa.timestamp("us"), plain)
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
    arrays["items"] = pa.array([lists[n % len(lists)] for n in range(ROWS)], pa.list_(pa.int32()))
    arrays["pair"] = pa.array([structs[n % len(structs)] for n in range(ROWS)], pair)
    arrays["pairs"] = pa.array([[structs[n % 4]] for n in range(ROWS)], pa.list_(pair))
    return pa.RecordBatch.from_pydict(arrays)


WHOLE = list(INTS.values())
COMPARED = [*((a, b) for a in [*WHOLE, "double"] for b in [*WHOLE, "double"])]
COMPARED += [(each, each) for each in ("text", "flag", "at", "local", "day", "dec5", "dec23")]
COMPARED += [("dec5", "dec23"), ("dec23", "int"), ("long", "dec5"), ("dec38", "dec38")]


def _operators() -> list[str]:
    found = []
    for a, b in COMPARED:
        marks = ("=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM")
        found += [f"a_{a} {mark} b_{b}" for mark in marks]
        found.append(f"a_{a} BETWEEN b_{b} AND a_{a}")
        found.append(f"a_{a} NOT BETWEEN b_{b} AND b_{b}")
        found.append(f"if(a_flag, a_{a}, b_{b})")
        found.append(f"coalesce(a_{a}, b_{b})")
        found.append(f"nullif(a_{a}, b_{b})")
        found.append(f"CASE a_{a} WHEN b_{b} THEN 'one' WHEN a_{a} THEN 'two' END")
    numbers = [*WHOLE, "double"]
    for a, b in itertools.product(numbers, numbers):
        found += [f"a_{a} {mark} b_{b}" for mark in ("+", "-", "*", "/", "%")]
        if "double" not in (a, b):
            found += [f"a_{a} {mark} b_{b}" for mark in ("div", "&", "|", "^")]
    for a in numbers:
        found += [f"-a_{a}", f"+a_{a}", f"abs(a_{a})", f"mod(a_{a}, 3)", f"a_{a} * 2 + 1"]
        found += [
            f"a_{a} + 1 + 2",
            f"a_{a} + 1 - 1",
            f"1 + a_{a} - 1",
            f"2 * a_{a} * 3",
            f"3 - a_{a} - 4",
        ]
        found += [f"a_{a} IN (1, 2, NULL)", f"a_{a} NOT IN (0, -7, 3)", f"a_{a} / 2", f"7 % a_{a}"]
        found += [f"a_{a} + 1.5D", f"a_{a} % 3 = 0", f"a_{a} * 0", f"0 / a_{a}", f"a_{a} = NULL"]
        found += [
            f"a_{a} + b_{a} > 3 AND a_{a} < 5",
            f"a_{a} < 5 AND a_{a} + b_{a} > 3",
            f"NOT a_{a} < 3",
        ]
    found += [f"~a_{a}" for a in WHOLE]
    decimals = ["dec5", "int", "byte", "long"]
    for a, b in itertools.product(decimals, decimals):
        if "dec5" in (a, b):
            found += [f"a_{a} {mark} b_{b}" for mark in ("+", "-", "*")]
    found += [
        "a_dec5 + b_dec23",
        "a_dec23 - b_dec5",
        "a_dec5 * b_dec23",
        "0.908 * a_long",
        "a_int * 0.5",
    ]
    found += [
        "a_double * 1.5",
        "0.1 + a_double",
        "a_dec5 * 3",
        "a_dec23 > 1000000",
        "a_dec23 IN (1, 2.5)",
    ]
    found += ["a_int = 2.5", "a_long < 0.001", "a_dec5 + 1 > 2", ".5 + a_dec5", "0.0 + a_dec5"]
    return found


def _choices() -> list[str]:
    logic = [
        "a_flag AND b_flag",
        "a_flag OR b_flag",
        "NOT a_flag",
        "a_flag OR NOT b_flag AND a_flag",
    ]
    logic += [
        "a_flag AND NULL",
        "NULL OR a_flag",
        "a_flag IN (true)",
        "a_flag = b_flag OR a_flag IS NULL",
    ]
    logic += [f"a_{each} IS NULL" for each in ("text", "int", "items", "pair", "dec5", "day")]
    logic += [f"a_{each} IS NOT NULL" for each in ("text", "double", "at")]
    logic = [each.replace("a_items", "items").replace("a_pair", "pair") for each in logic]
    logic += [
        "isnull(a_int)",
        "isnotnull(a_text)",
        "isnan(a_double)",
        "a_int = 1 OR 10 div a_int > 2",
    ]
    guarded = [
        "10 / a_int",
        "10 div a_long",
        "cast(a_text AS int)",
        "a_int + b_int",
        "items[a_byte]",
    ]
    found = [*logic, *guarded]
    for each in guarded:
        found += [
            f"CASE WHEN a_flag THEN {each} END",
            f"CASE WHEN a_flag THEN 1 WHEN ({each}) > 2 THEN 3 ELSE 4 END",
            f"if(a_int = 0, 0, {each})",
            f"coalesce(b_int, {each})",
            f"coalesce({each}, b_int)",
            f"a_flag AND ({each}) > 0",
            f"a_flag OR ({each}) > 0",
            f"({each}) > 0 AND a_flag",
            f"({each}) > 0 OR a_flag",
            f"b_double + ({each})",
            f"({each}) + b_double",
            f"b_double / ({each})",
            f"({each}) % b_double",
            f"b_double = ({each})",
            f"nvl2(a_flag, {each}, 5)",
            f"nullif(10, {each})",
            f"({each}) IN (1, 2)",
            f"b_double BETWEEN ({each}) AND 9",
            f"b_double BETWEEN 3 AND ({each})",
            f"NOT ({each}) > 3",
        ]
    return found


def _casts() -> list[str]:
    whole = ["tinyint", "smallint", "int", "bigint"]
    found = [f"cast(a_{a} AS {b})" for a in [*WHOLE, "double", "flag", "text"] for b in whole]
    found += [f"cast(a_{a} AS {b})" for a in WHOLE for b in ("double", "string", "boolean")]
    found += [
        "cast(a_flag AS string)",
        "int(a_text)",
        "coalesce(a_dec5, 0)",
        "if(a_flag, a_dec23, 1)",
    ]
    found += [f"cast(a_{a} AS decimal({p}))" for a in WHOLE for p in ("3", "10, 2", "38, 18", "20")]
    for a in ("dec5", "dec23"):
        found += [f"cast(a_{a} AS decimal({p}))" for p in ("3, 1", "5, 0", "10, 4", "23, 3", "6,3")]
    found += [
        "cast(0.908 * a_long AS decimal(23, 3))",
        "cast(a_at AS date)",
        "cast(a_local AS date)",
    ]
    found += [
        "a_day = DATE '2000-02-29'",
        "a_day >= cast('1970-01-01' AS date)",
        "1L + a_int",
        "10S",
        "3Y",
    ]
    found += [
        "-9223372036854775808 = a_long",
        "- 1 + a_int",
        "2147483648",
        "-2147483648",
        "1e3",
        "1.50",
    ]
    return found


def _texts() -> list[str]:
    found = [
        "length(a_text)",
        "char_length(a_text)",
        "lower(a_text)",
        "upper(a_text)",
        "trim(a_text)",
    ]
    found += ["ltrim(a_text)", "rtrim(a_text)", "concat(a_text, b_text)", "a_text || b_text || 'x'"]
    found += ["concat(a_text, '-', b_text)", "length(replace(a_text, 'c', '')) - length(a_text)"]
    found += [
        f"replace(a_text, '{a}', '{b}')" for a in ("a", "bc", "", "\U0001f600") for b in ("", "zz")
    ]
    for at in (-100, -3, -2, -1, 0, 1, 2, 3, 50):
        found.append(f"substr(a_text, {at})")
        found += [f"substring(a_text, {at}, {count})" for count in (-1, 0, 1, 2, 3, 100)]
    for sought in ("a", "", "\U0001f600", "c", "/"):
        found += [f"{f}(a_text, '{sought}')" for f in ("startswith", "endswith", "contains")]
        if sought:
            found += [f"split_part(a_text, '{sought}', {n})" for n in (1, 2, 3, 4, -1, -2, -9)]
    for pattern in (
        "a%",
        "%c",
        "%b%",
        "_",
        "__",
        "a_c",
        "%",
        "",
        "a",
        "%\n%",
        "h%o",
        "%.%",
        "(a)",
        "_%_",
        "%%c",
        "[a]",
    ):
        found += [f"a_text LIKE '{pattern}'", f"a_text NOT LIKE '{pattern}'"]
    for pattern in (
        "[&?]channel_id=([^&]*)",
        "a([bc]+)",
        "([^a]+)c",
        "(a?)b",
        "l(i*)",
        "([a-c]+)",
        "b([^x]*)",
    ):
        found.append(f"regexp_extract(a_text, '{pattern}', 1)")
    found += [
        "CASE lower(a_text) WHEN 'abc' THEN '0' ELSE nullif(a_text, '') END",
        "a_text IN ('a', '', NULL)",
    ]
    return found


def _times_and_parts() -> list[str]:
    found = [f"{f}(a_{a})" for a in ("at", "local") for f in ("hour", "minute", "second")]
    found += [
        f"{f}(a_{a})" for a in ("at", "local", "day") for f in ("year", "month", "day", "to_date")
    ]
    formats = ("HH:mm", "HH", "mm")
    found += [f"date_format(a_{a}, '{each}')" for a in ("at", "local") for each in formats]
    found += [
        "hour(a_at) BETWEEN 8 AND 18",
        "pair.x",
        "pair.y",
        "pair.X + 1",
        "items[0]",
        "items[2]",
        "pairs[0].y",
    ]
    found += [
        "items[a_int]",
        "a_int & 1 = 0",
        "- a_int * 2",
        "-a_byte",
        "NOT a_int = 1",
        "(a_int = 1) = a_flag",
    ]
    found += [
        "a_int - b_int - 1",
        "a_int * 2 div 3 % 2",
        "2 + a_byte * 3",
        "NOT a_int IS NULL",
        "a_int <> -1",
    ]
    found += [
        "a_flag = b_flag IS NULL",
        "a_int & 1 IS NULL",
        "a_int BETWEEN -1 AND 3",
        "NOT a_flag AND b_flag",
    ]
    found += [
        "a_int IN (1) AND b_int NOT IN (2)",
        "a_int + 1 IN (1, 2)",
        "a_text || 'b' = 'ab'",
        "(a_int | 1) + 1",
    ]
    return found


def _composed() -> list[str]:
    """Expressions of expressions, drawn with a fixed seed: what is not needed is not computed."""
    rng = random.Random(7)
    leaves = [
        "a_int",
        "b_int",
        "a_byte",
        "b_long",
        "a_double",
        "3",
        "-1",
        "0",
        "2.5D",
        "10L",
        "NULL",
    ]

    def number(depth: int) -> str:
        if not depth:
            return rng.choice(leaves)
        one, other = (number(rng.randrange(depth)) for _ in range(2))
        sums = [f"({one} {mark} {other})" for mark in ("+", "-", "*", "/", "%")]
        choices = [
            f"if({truth(depth - 1)}, {one}, {other})",
            f"coalesce({one}, {other})",
            f"CASE WHEN {truth(depth - 1)} THEN {one} WHEN {truth(depth - 1)} THEN {other} END",
            f"cast({one} AS int)",
            f"-({one})",
        ]
        return rng.choice(rng.choice((sums, choices)))

    def truth(depth: int) -> str:
        if not depth:
            return rng.choice(["a_flag", "b_flag", "a_text LIKE '%a%'", "b_int IS NULL", "true"])
        one, other = number(depth - 1), number(depth - 1)
        tests = [f"({one} {mark} {other})" for mark in ("=", "<", ">=", "<>")]
        left, right = truth(depth - 1), truth(depth - 1)
        joined = [f"({left} AND {right})", f"({left} OR {right})", f"(NOT {left})"]
        return rng.choice(rng.choice((tests, joined)))

    return [rng.choice((number, truth))(rng.randrange(2, 5)) for _ in range(400)]


@pytest.fixture(scope="module")
def session():
    """The process's own, that computes each expression by itself."""
    from atoll.spark.session import local_session

    session = local_session(2)
    session.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    yield session
    session.conf.unset("spark.sql.subexpressionElimination.enabled")


@pytest.fixture(scope="module")
def frame(session):
    """The edge values."""
    from atoll.spark.analysis import spark_schema

    batch = _table()
    frame = session.createDataFrame(batch.to_pylist(), spark_schema(batch.schema))
    return batch, frame.coalesce(1).cache()


def _tried(text: str, at: int):
    """The expression's value in an array, which is null where the expression fails."""
    from pyspark import SparkContext
    from pyspark.sql import functions
    from pyspark.sql.classic.column import Column

    jvm = SparkContext._active_spark_context._jvm
    bridge = getattr(jvm, "org.apache.spark.sql.classic.ExpressionUtils")
    attempt = getattr(jvm, "org.apache.spark.sql.catalyst.expressions.TryEval")
    whole = functions.array(functions.expr(text))
    return Column(bridge.column(attempt(bridge.expression(whole._jc)))).alias(f"e{at}")


def _by_spark(frame, texts: list[str]) -> pa.Table:
    return frame.select(*[_tried(text, at) for at, text in enumerate(texts)]).toArrow()


def _fails(node: Node, batch: pa.RecordBatch) -> bool:
    """Whether some row of a batch cannot be computed."""
    try:
        node.of(Rows(batch))
    except RowError:
        return True
    return False


def _bits(value: object) -> object:
    if isinstance(value, float):
        return struct.pack(">d", value) if value == value else "NaN"  # noqa: PLR0124
    return value


def _difference(batch: pa.RecordBatch, text: str, answer: pa.ChunkedArray) -> str:
    """How an expression differs from Spark's; empty where it does not."""
    node = computed(text, batch.schema)
    if node.type != answer.type.value_type:
        return f"{node.type}, Spark {answer.type.value_type}"
    failed = answer.is_null().combine_chunks()
    good = batch.filter(pc.invert(failed))
    if _fails(node, good):
        rows = [good.slice(n, 1) for n in range(len(good)) if _fails(node, good.slice(n, 1))]
        return f"fails on {len(rows)} rows that Spark computes: {_used(rows[0], text)}"
    bad = batch.filter(failed)
    assert node.fails or not len(bad), text
    for n in range(0, len(bad), 1 + len(bad) // BAD_ROWS_MAX):
        if not _fails(node, bad.slice(n, 1)):
            return f"computed where Spark fails: {_used(bad.slice(n, 1), text)}"
    ours = [_bits(each) for each in node.of(Rows(good)).to_pylist()]
    theirs = [_bits(each[0]) for each in answer.to_pylist() if each is not None]
    for n, (mine, expected) in enumerate(zip(ours, theirs, strict=True)):
        if mine != expected:
            return f"{mine!r}, Spark {expected!r}: {_used(good.slice(n, 1), text)}"
    return ""


def _used(row: pa.RecordBatch, text: str) -> dict[str, object]:
    return {name: value for name, value in row.to_pylist()[0].items() if name in text}


def _differences(frame, batch: pa.RecordBatch, texts: list[str]) -> list[str]:
    """Where Spark and Atoll differ."""
    found = []
    for text, answer in zip(texts, _by_spark(frame, texts).columns, strict=True):
        try:
            different = _difference(batch, text, answer)
        except NotCertifiedError as error:
            different = str(error)
        found += [f"{text}: {different}"] if different else []
    return found


def _is_certified(text: str, schema: pa.Schema) -> bool:
    try:
        computed(text, schema)
    except NotCertifiedError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [_operators, _choices, _casts, _texts, _times_and_parts, _composed]
)
def test_values_types_and_errors_are_sparks(frame, family):
    """The same types, values and failing rows, over all pairs of edge values."""
    batch, rows = frame
    texts = list(dict.fromkeys(family()))
    if family is _composed:
        texts = [each for each in texts if _is_certified(each, batch.schema)]
        assert len(texts) > DRAWN_MIN
    found = []
    for first in range(0, len(texts), 100):
        found += _differences(rows, batch, texts[first : first + 100])
    assert found == []
