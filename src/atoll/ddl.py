"""Spark DDL schemas, read and written without Spark: ``"user_id long NOT NULL, at timestamp"``.

A depot's schema, and the columns that a Python step emits, are declared as text in the language
that Spark users know. Here it becomes an Arrow schema, with the very types that Spark gives those
columns when it exchanges Arrow data, so that no cast stands between a depot and a Spark job.

The grammar is small (a dozen type names, three brackets, ``NOT NULL`` and ``COMMENT``), so a
parser of its own reads it: it loads in no time and can point at the very character that is wrong.

======================  ======================  ==============================
Spark                   Arrow                   Python
======================  ======================  ==============================
boolean                 bool                    bool
byte, short, int, long  int8, 16, 32, 64        int
float, double           float, double           float
decimal(p, s)           decimal128(p, s)        Decimal
string, binary          string, binary          str, bytes
date                    date32                  date
timestamp               timestamp[us, UTC]      datetime (an instant)
timestamp_ntz           timestamp[us]           datetime (without a time zone)
array, map, struct      list, map, struct       list, dict, dict
======================  ======================  ==============================
"""

from __future__ import annotations

import re
from typing import NoReturn

import pyarrow as pa

from atoll.errors import DeclarationError

__all__ = ["columns_in_words", "parse_ddl", "to_ddl", "type_in_words", "type_to_ddl"]

_SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
_WORDS = {pa.int8(): "byte", pa.int16(): "short", pa.int64(): "long"}
"""Types that users call otherwise than Spark itself does."""
_DECIMALS = {"decimal", "dec", "numeric"}
_DECIMAL_DEFAULT = (10, 0)
_DECIMAL_PRECISION_MAX = 38
_DEPTH_MAX = 32
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[^\W\d]\w*|\d\w*)|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<mark>[<>(),:]))"
)
_PLAIN_NAME = re.compile(r"[^\W\d]\w*\Z")
_HINT = 'write it as Spark does: "name string, amount decimal(10, 2) NOT NULL, tags array<string>"'


def parse_ddl(ddl: str) -> pa.Schema:
    """The Arrow schema that a Spark DDL text declares.

    Args:
        ddl: Fields apart by commas, each ``name type [NOT NULL] [COMMENT 'text']``. Type names
            are read in any case; a name that is no plain word stands in backticks.

    Raises:
        DeclarationError: When the text is no schema; the message names what is wrong, the
            context where (``position`` counts characters from 1).
    """
    if not isinstance(ddl, str):
        raise DeclarationError(f"{ddl!r} is no schema text", hint=_HINT)
    return _Parser(ddl).schema()


def to_ddl(schema: pa.Schema) -> str:
    """The Spark DDL of an Arrow schema; :func:`parse_ddl` reads it back to an equal one.

    Raises:
        DeclarationError: When a type has no counterpart among the ones above.
    """
    return ", ".join(_field_ddl(field, " ") for field in schema)


def type_to_ddl(arrow_type: pa.DataType) -> str:
    """The Spark name of one Arrow type: ``ARRAY<BIGINT>``.

    Raises:
        DeclarationError: When the type has no counterpart.
    """
    if arrow_type in _NAMES:
        return _NAMES[arrow_type]
    if pa.types.is_decimal128(arrow_type):
        return f"DECIMAL({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_list(arrow_type):
        return f"ARRAY<{type_to_ddl(arrow_type.value_type)}>"
    if pa.types.is_map(arrow_type):
        return f"MAP<{type_to_ddl(arrow_type.key_type)}, {type_to_ddl(arrow_type.item_type)}>"
    if pa.types.is_struct(arrow_type):
        return f"STRUCT<{', '.join(_field_ddl(field, ': ') for field in arrow_type)}>"
    raise DeclarationError(
        f"Arrow's type {arrow_type} has no name in a depot's schema",
        hint=f"cast it to one of {', '.join(sorted(_NAMES.values()))}",
    )


def type_in_words(arrow_type: pa.DataType) -> str:
    """One Arrow type as users write it, for messages: ``array<long>``.

    :func:`parse_ddl` reads it, but for types that no schema can have; they are told as Arrow's.
    """
    if pa.types.is_list(arrow_type):
        return f"array<{type_in_words(arrow_type.value_type)}>"
    if pa.types.is_map(arrow_type):
        key, item = type_in_words(arrow_type.key_type), type_in_words(arrow_type.item_type)
        return f"map<{key}, {item}>"
    if pa.types.is_struct(arrow_type):
        members = (f"{_name_ddl(each.name)}: {type_in_words(each.type)}" for each in arrow_type)
        return f"struct<{', '.join(members)}>"
    if arrow_type in _WORDS:
        return _WORDS[arrow_type]
    try:
        return type_to_ddl(arrow_type).lower()
    except DeclarationError:
        return str(arrow_type)


def columns_in_words(schema: pa.Schema) -> str:
    """Columns as users write them in a schema, for messages: ``k string, n long``."""
    return ", ".join(f"{_name_ddl(each.name)} {type_in_words(each.type)}" for each in schema)


def _name_ddl(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else f"`{name.replace('`', '``')}`"


def _field_ddl(field: pa.Field, separator: str) -> str:
    suffix = "" if field.nullable else " NOT NULL"
    return f"{_name_ddl(field.name)}{separator}{type_to_ddl(field.type)}{suffix}"


class _Parser:
    """Recursive descent over one text; ``at`` is the index of the next token."""

    def __init__(self, ddl: str) -> None:
        self.ddl = ddl
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        position, end = 0, len(ddl.rstrip())
        while position < end:
            match = _TOKEN.match(ddl, position)
            if match is None:
                position += len(ddl[position:]) - len(ddl[position:].lstrip())
                self._fail(f"{ddl[position]!r} has no meaning here", position)
            kind = str(match.lastgroup)
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()

    def schema(self) -> pa.Schema:
        if not self.tokens:
            self._fail("the schema is empty", 0)
        fields = self._fields(until="")
        return pa.schema(fields)

    def _fields(self, until: str, depth: int = 0) -> list[pa.Field]:
        fields: list[pa.Field] = []
        seen: set[str] = set()
        while True:
            start = self._position()
            field = self._field(depth)
            if field.name.lower() in seen:
                self._fail(f"field {field.name!r} is declared twice", start)
            seen.add(field.name.lower())
            fields.append(field)
            if self._accept(until):
                return fields
            self._expect(",", f"after field {field.name!r}")

    def _field(self, depth: int) -> pa.Field:
        kind, text, position = self._next("a field's name")
        if kind == "quoted":
            name = text[1:-1].replace("``", "`")
        elif kind == "word" and not text[0].isdecimal():
            name = text
        else:
            self._fail(f"{text!r} is no field name", position)
        self._accept(":")
        arrow_type = self._type(f"field {name!r}", depth)
        nullable = not self._not_null()
        if self._accept_word("comment") and self._next("the comment's text")[0] != "text":
            self._fail("a COMMENT's text stands in quotes", self.tokens[self.at - 1][2])
        return pa.field(name, arrow_type, nullable)

    def _not_null(self) -> bool:
        if not self._accept_word("not"):
            return False
        if not self._accept_word("null"):
            self._fail("NOT must be followed by NULL", self._position())
        return True

    def _type(self, place: str, depth: int) -> pa.DataType:
        kind, text, position = self._next(f"the type of {place}")
        if depth > _DEPTH_MAX:
            self._fail(f"types are nested more than {_DEPTH_MAX} deep", position)
        name = text.lower()
        if kind == "word" and name in _SIMPLE:
            return _SIMPLE[name]
        if kind == "word" and name in _DECIMALS:
            return self._decimal()
        if kind == "word" and name == "array":
            return pa.list_(self._nested(place, depth)[0])
        if kind == "word" and name == "map":
            key, value = self._nested(place, depth, count=2)
            return pa.map_(key, value)
        if kind == "word" and name == "struct":
            self._expect("<", "after struct")
            return pa.struct(self._fields(until=">", depth=depth + 1))
        known = sorted({*_SIMPLE, "decimal(p, s)", "array<>", "map<,>", "struct<>"})
        hint = f"use one of {', '.join(known)}"
        raise self._error(f"{text!r} is no type ({place})", position, hint)

    def _nested(self, place: str, depth: int, count: int = 1) -> list[pa.DataType]:
        self._expect("<", f"in the type of {place}")
        members = [self._type(place, depth + 1)]
        while len(members) < count:
            self._expect(",", f"in the type of {place}")
            members.append(self._type(place, depth + 1))
        self._expect(">", f"at the end of the type of {place}")
        return members

    def _decimal(self) -> pa.DataType:
        precision, scale = _DECIMAL_DEFAULT
        start = self._position()
        if self._accept("("):
            precision = self._number("a decimal's precision")
            scale = self._number("a decimal's scale") if self._accept(",") else 0
            self._expect(")", "after a decimal's precision and scale")
        if not (1 <= precision <= _DECIMAL_PRECISION_MAX and scale <= precision):
            self._fail(
                f"decimal({precision}, {scale}) cannot be",
                start,
                f"choose a precision of 1 to {_DECIMAL_PRECISION_MAX} and a scale within it",
            )
        return pa.decimal128(precision, scale)

    def _number(self, what: str) -> int:
        _, text, position = self._next(what)
        if not text.isdecimal():
            self._fail(f"{text!r} is not {what}", position)
        return int(text)

    def _next(self, what: str) -> tuple[str, str, int]:
        if self.at >= len(self.tokens):
            self._fail(f"the schema ends where {what} should stand", len(self.ddl))
        self.at += 1
        return self.tokens[self.at - 1]

    def _accept(self, mark: str) -> bool:
        """Step over the mark if it is next; the empty mark stands for the end of the text."""
        if self.at >= len(self.tokens):
            return mark == ""
        kind, text, _ = self.tokens[self.at]
        if kind == "mark" and text == mark:
            self.at += 1
            return True
        return False

    def _accept_word(self, word: str) -> bool:
        if self.at < len(self.tokens):
            kind, text, _ = self.tokens[self.at]
            if kind == "word" and text.lower() == word:
                self.at += 1
                return True
        return False

    def _expect(self, mark: str, place: str) -> None:
        if not self._accept(mark):
            found = self.tokens[self.at][1] if self.at < len(self.tokens) else "the end"
            self._fail(f"expected {mark!r} {place}, found {found!r}", self._position())

    def _position(self) -> int:
        return self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.ddl)

    def _fail(self, message: str, position: int, hint: str = _HINT) -> NoReturn:
        raise self._error(message, position, hint)

    def _error(self, message: str, position: int, hint: str) -> DeclarationError:
        return DeclarationError(
            f"wrong schema: {message}", hint=hint, schema=self.ddl, position=position + 1
        )
