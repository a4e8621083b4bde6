"""What is asked of Spark and of Atoll: expressions of every form, family by family."""

from __future__ import annotations

import itertools
import random

from spark_edges import WHOLE

__all__ = ["casts", "choices", "composed", "decimals", "hashes", "nested", "numbers"]
__all__ += ["operators", "patterns", "texts", "times_and_parts"]

FLOATING = ["float", "double"]
COMPARED = [*((a, b) for a in [*WHOLE, *FLOATING] for b in [*WHOLE, *FLOATING])]
COMPARED += [(each, each) for each in ("text", "flag", "at", "local", "day", "dec5", "dec23")]
COMPARED += [("dec5", "double"), ("float", "dec23"), ("local", "at"), ("far", "day")]
COMPARED += [("dec5", "dec23"), ("dec23", "int"), ("long", "dec5"), ("dec38", "dec38")]


def operators() -> list[str]:
    """Comparisons, arithmetic, and choices between two."""
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
    found += [f"a_{a} {mark} b_{b}" for a, b in (("day", "at"), ("local", "day")) for mark in "<="]
    found += ["coalesce(a_at, b_day)", "if(a_flag, a_day, b_local)", "a_day BETWEEN b_at AND a_at"]
    numbers = [*WHOLE, *FLOATING]
    for a, b in itertools.product(numbers, numbers):
        found += [f"a_{a} {mark} b_{b}" for mark in ("+", "-", "*", "/", "%")]
        if a in WHOLE and b in WHOLE:
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


def choices() -> list[str]:
    """Logic, and what is not needed."""
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


def casts() -> list[str]:
    """Between all types, and literals of all sorts."""
    whole = ["tinyint", "smallint", "int", "bigint"]
    plain = [*WHOLE, *FLOATING, "flag"]
    exact = ["dec5", "dec23", "dec38"]
    found = [f"cast(a_{a} AS {b})" for a in [*plain, *exact, "text"] for b in whole]
    found += [f"cast(a_{a} AS {b})" for a in plain for b in ("double", "float")]
    found += [f"cast(a_{a} AS boolean)" for a in [*plain, *exact, "text"]]
    found += [f"cast(a_{a} AS string)" for a in [*WHOLE, "flag", *exact, "day", "at", "local"]]
    found += [f"cast(a_{a} AS string)" for a in ("far", "when")]
    found += [f"cast(a_{a} AS double)" for a in [*exact, "text", "at", "when"]]
    found += [f"cast(a_text AS decimal({p}))" for p in ("5, 2", "10", "38, 18", "38, 0", "3, 3")]
    found += [f"cast(a_{a} AS {b})" for a in ("at", "when") for b in whole]
    found += [f"cast(a_{a} AS timestamp)" for a in [*WHOLE, "day", "far", "local"]]
    found += [f"cast(a_{a} AS timestamp_ntz)" for a in ("day", "far", "at")]
    found += [
        "cast(a_text AS date)",
        "date(a_at)",
        "float(a_int)",
        "cast(a_dec38 AS decimal(38, 2))",
    ]
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


def texts() -> list[str]:
    """Functions of texts."""
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
    found += ["octet_length(a_text)", "bit_length(a_text)", "ascii(a_text)", "reverse(a_text)"]
    for sought in ("b", "", "\U0001f600", "/a", "."):
        found += [f"instr(a_text, '{sought}')", f"locate('{sought}', a_text)"]
        found += [f"substring_index(a_text, '{sought}', {n})" for n in (-9, -2, -1, 0, 1, 2, 9)]
    found += ["position('c' IN a_text)", "left(a_text, 2)", "left(a_text, -1)", "left(a_text, 0)"]
    found += ["right(a_text, 2)", "right(a_text, 0)", "right(a_text, 99)", "right(a_text, -3)"]
    for width in (-1, 0, 2, 7):
        found += [f"{f}(a_text, {width})" for f in ("lpad", "rpad")]
        found += [
            f"{f}(a_text, {width}, '{x}')" for f in ("lpad", "rpad") for x in ("xyz", "", "é")
        ]
    found += [f"repeat(a_text, {n})" for n in (-1, 0, 1, 3)]
    found += ["translate(a_text, 'abc', 'x')", "translate(a_text, 'aab', 'xyz')"]
    found += ["translate(a_text, '\U0001f600', 'é')", "concat_ws('-', a_text, b_text)"]
    found += ["concat_ws('', a_text, NULL, b_text)", "concat_ws('-', a_text)"]
    found += [
        "CASE lower(a_text) WHEN 'abc' THEN '0' ELSE nullif(a_text, '') END",
        "a_text IN ('a', '', NULL)",
    ]
    return found


def times_and_parts() -> list[str]:
    """Dates and times, their parts, and how operators bind."""
    found = [f"{f}(a_{a})" for a in ("at", "local") for f in ("hour", "minute", "second")]
    found += [
        f"{f}(a_{a})" for a in ("at", "local", "day") for f in ("year", "month", "day", "to_date")
    ]
    days = ("at", "local", "day", "far", "when")
    parts = ("year", "quarter", "month", "day", "dayofmonth", "weekofyear", "dayofyear")
    found += [f"{f}(a_{a})" for a in days for f in (*parts, "dayofweek", "weekday", "last_day")]
    fields = ("year", "quarter", "month", "week", "day", "dow", "dayofweek", "doy")
    found += [f"extract({f} FROM a_{a})" for f in fields for a in ("at", "day")]
    found += [f"extract({f} FROM a_{a})" for f in ("hour", "minute") for a in ("at", "local")]
    for a in ("at", "local", "day", "far"):
        found += [f"date_add(a_{a}, {n})" for n in (-1, 0, 400, "b_int", "b_byte", "b_short")]
        found += [f"date_sub(a_{a}, 30)", f"datediff(a_{a}, b_day)", f"date_diff(b_at, a_{a})"]
        found += [f"add_months(a_{a}, {n})" for n in (-13, 1, 12, "b_byte")]
        found += [f"trunc(a_{a}, '{unit}')" for unit in ("year", "quarter", "MM", "week")]
        units = ("YEAR", "MONTH", "DAY")
        found += [f"a_{a} {s} INTERVAL '{n}' {u}" for s in "+-" for n in (1, -7, 90) for u in units]
    found += ["a_day + 3", "a_day - b_byte", "3 + a_day", "a_far - b_short", "a_far + b_int"]
    for a in ("at", "local", "when"):
        units = ("HOUR", "MINUTES", "SECOND")
        found += [f"a_{a} {s} INTERVAL {n} {u}" for s in "+-" for n in (1, 100) for u in units]
        found += [f"INTERVAL 1 DAY + a_{a}"]
    levels = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")
    found += [f"date_trunc('{each}', a_{a})" for each in levels for a in ("at", "when")]
    for a in ("at", "when"):
        found += [f"unix_{f}(a_{a})" for f in ("seconds", "millis", "micros", "timestamp")]
    for a in WHOLE:
        found += [f"timestamp_{f}(a_{a})" for f in ("seconds", "millis", "micros")]
    found += ["unix_date(a_day)", "unix_date(a_far)", "date_from_unix_date(a_int)"]
    found += ["make_date(a_short, b_byte, a_byte)", "make_date(2024, 2, a_byte)"]
    found += ["make_date(a_int, 2, 28)", "make_date(year(a_day), month(b_day), day(a_at))"]
    found += ["a_day < DATE '2000-01-01' - INTERVAL '90' DAY", "extract(year FROM a_day) = 2000"]
    formats = ("HH:mm", "HH", "mm", "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy/MM", "dd.MM.yyyy")
    found += ["date_format(a_when, 'yyyy-MM-dd HH:mm:ss')"]
    found += [f"date_format(a_{a}, '{each}')" for a in ("at", "local") for each in formats]
    found += [
        "hour(a_at) BETWEEN 8 AND 18",
    ]
    found += [
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


def decimals() -> list[str]:
    """Their arithmetic, rounded where the result has too many digits."""
    found = []
    kinds = ("dec5", "dec23", "dec38", "int", "long")
    for a, b in itertools.product(kinds, kinds):
        if a.startswith("dec") or b.startswith("dec"):
            marks = ("+", "-", "*", "/") if (a, b) != ("dec38", "dec38") else ("+", "-", "/")
            found += [f"a_{a} {mark} b_{b}" for mark in marks]
    found += [f"a_{a} % b_{b}" for a in ("dec5", "dec23", "int") for b in ("dec5", "dec23")]
    found += [f"{sign}a_{a}" for sign in ("-", "+") for a in ("dec5", "dec23")]
    found += [f"abs(a_{a})" for a in ("dec5", "dec23")]
    found += ["a_dec5 / 3", "100.00 * a_dec5 / b_dec23", "a_dec23 * (1 - b_dec5) * (1 + a_dec5)"]
    found += ["a_dec5 BETWEEN 0.06 - 0.01 AND 0.06 + 0.01", "a_dec5 + (1 + 2)", "a_int + (1 + 2)"]
    found += ["a_dec5 / (7 div 2)", "round(a_dec23, 1 + 1)", "a_int + (5 % 3)", "a_dec5 * abs(-2)"]
    found += ["a_dec5 / 0", "a_dec5 % 0.7", "7 % a_dec5", "a_dec5 + a_double", "a_dec23 * a_float"]
    found += ["a_dec38 / b_double", "a_dec5 / b_float", "0.2 * a_dec23", "a_dec23 / a_dec23"]
    found += [f"{f}(a_{a})" for f in ("ceil", "floor", "sqrt") for a in ("dec5", "dec23", "dec38")]
    for a in ("dec5", "dec23", "dec38"):
        found += [f"{f}(a_{a}, {n})" for f in ("round", "bround") for n in (-3, -1, 0, 1, 2, 5)]
        found += [f"round(a_{a})", f"greatest(a_{a}, b_{a})", f"least(a_{a}, b_{a})"]
    return found


def numbers() -> list[str]:
    """Bits, rounding, signs and roots."""
    found = []
    for a, b in itertools.product(WHOLE, ("byte", "short", "int")):
        found += [f"a_{a} << b_{b}", f"a_{a} >> b_{b}", f"shiftleft(a_{a}, b_{b})"]
        found += [f"shiftright(a_{a}, b_{b})", f"shiftrightunsigned(a_{a}, b_{b})"]
    for a in WHOLE:
        found += [f"{f}(a_{a}, {n})" for f in ("round", "bround") for n in (-12, -2, -1, 0, 2)]
        found += [f"pmod(a_{a}, b_{b})" for b in [*WHOLE, *FLOATING]]
    for a in [*WHOLE, *FLOATING]:
        found += [f"{f}(a_{a})" for f in ("ceil", "ceiling", "floor", "sqrt", "sign", "signum")]
        found += [f"negative(a_{a})", f"positive(a_{a})"]
        found += [f"{f}(a_{a}, b_{b})" for f in ("greatest", "least") for b in [*WHOLE, *FLOATING]]
    found += [f"pmod(a_{a}, b_{b})" for a in FLOATING for b in [*WHOLE, *FLOATING]]
    found += [f"nanvl(a_{a}, b_{b})" for a in FLOATING for b in [*FLOATING, "int"]]
    found += [f"isnan(a_{a})" for a in FLOATING]
    for a in ("text", "flag", "day", "at", "local"):
        found += [f"greatest(a_{a}, b_{a})", f"least(b_{a}, a_{a}, NULL)"]
    found += [
        "greatest(a_int, 10 div b_int, 3)",
        "least(a_int + b_int, a_int)",
        "greatest(1, NULL, a_int)",
    ]
    return found


def patterns() -> list[str]:
    """Patterns of the closed grammar."""
    found = []
    for pattern in (
        "a", "^a", "a$", "^abc$", "b.c", "a.*c", "[a-c]+", "^[^a]*$x", "a|b", "(a|b)c", "[0-9]{2,}",
        "^[0-9]+$", "x{0}a", "l.n", "ab.", "^.$", "^..$", "b$", "(?:ab)+c", "a{2}b", "a+?b", "é",
        "[&?]channel_id=", "^(a|/a)", "[.]", "a.b.c", "^[a-z]+,", "12$", "[a-b]$", "c.?$x",
    ):  # fmt: skip
        if not pattern.endswith("$x"):
            found += [f"a_text RLIKE '{pattern}'", f"a_text NOT RLIKE '{pattern}'"]
    found += ["a_text REGEXP 'b+'", "rlike(a_text, 'b+')", "regexp_like(a_text, '^a')"]
    for pattern in (",", "[.]", "[0-9]", "b+", "a|c", "//?", "[ab]c?"):
        found += [f"split(a_text, '{pattern}')", f"regexp_replace(a_text, '{pattern}', '<>')"]
    found += [
        "split(a_text, ',')[0]",
        "size(split(a_text, 'a'))",
        "regexp_replace(a_text, 'a', '')",
    ]
    for pattern in ("a(.)c", "^(a+)", "x(?:-)([0-9])", "([a-z]{2})[0-9]", "(a|b)c", "h.p://(.*)/"):
        found.append(f"regexp_extract(a_text, '{pattern}', 1)")
        found.append(f"regexp_extract(a_text, '{pattern}')")
    return found


def hashes() -> list[str]:
    """Digests, Murmur3 and XXH64 of all types."""
    found = ["md5(a_text)", "sha1(a_text)", "sha(a_text)", "crc32(a_text)"]
    found += [f"sha2(a_text, {bits})" for bits in (0, 224, 256, 384, 512)]
    kinds = [*WHOLE, *FLOATING, "flag", "text", "day", "at", "local"]
    found += [f"{f}(a_{a}, b_{a})" for f in ("hash", "xxhash64") for a in kinds]
    found += [f"{f}(a_text, a_int, repeat(b_text, 9), a_double)" for f in ("hash", "xxhash64")]
    return found


def nested() -> list[str]:
    """Fields, elements and entries."""
    found = ["pair.x", "pair.y", "pair.X + 1", "items[0]", "items[2]", "pairs[0].y", "items[a_int]"]
    found += ["element_at(items, 1)", "element_at(items, -2)", "element_at(items, a_int)"]
    found += ["element_at(items, 0)", "counts['a']", "counts[a_text]", "element_at(counts, 'é')"]
    found += ["size(items)", "size(counts)", "cardinality(words)", "size(words) > 1"]
    found += ["array_contains(items, 3)", "array_contains(words, 'a')", "array_contains(words, '')"]
    return found


def composed() -> list[str]:
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
