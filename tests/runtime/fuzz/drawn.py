"""Strategies from a JSON Schema, and values that break what they drew.

Only the words that the published schema of definitions uses are known; any other one is refused,
so that a new one is not passed over in silence. (hypothesis-jsonschema stops at draft 7 and knows
no ``if``, by which the schema says what params each type has.)
"""

from __future__ import annotations

import copy
import math

from hypothesis import strategies as st

WORDLESS = {"title", "description", "default", "$schema", "$defs"}
KNOWN = {
    *("type", "enum", "const", "anyOf", "oneOf", "$ref", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "properties", "required", "additionalProperties", "maxProperties"),
    *("minProperties", "items", "minItems", "maxItems", "allOf", "if", "then"),
}
NAMES = st.sampled_from(["a", "b", "c", "d"])
FEW = 4
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(["${a}", "${a.b[0]}", "${*}", "${", "a", "amount", "2020-01-01", "", "1e999"])
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXT, inner, max_size=3),
    max_leaves=6,
)
FEW_WAYS = st.integers(0, 2)
OBJECTS = st.dictionaries(NAMES | TEXT, ANYTHING, max_size=FEW)


class Schemas:
    """Draws what a schema takes.

    Args:
        whole: The schema, with its ``$defs``.
        overrides: By the name of a definition or property, a strategy instead of the schema's.
    """

    def __init__(self, whole, overrides=None):
        self.defs = whole.get("$defs", {})
        self.overrides = overrides or {}

    def of(self, schema):
        """A strategy for a schema."""
        unknown = schema.keys() - KNOWN - WORDLESS
        assert not unknown, f"the test does not know {unknown}"
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return st.one_of([self.of(each) for each in schema[word]])
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._named(name, self.defs[name])
        if "const" in schema or "enum" in schema:
            return st.sampled_from(schema.get("enum") or [schema["const"]])
        if schema.get("allOf"):
            return self._by_type(schema)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return st.one_of([self._kind(each, schema) for each in kinds]) if kinds else ANYTHING

    def _named(self, name, schema):
        return self.overrides[name] if name in self.overrides else self.of(schema)

    def _by_type(self, schema):
        """An object whose ``params`` are as its ``type`` says."""
        plain = {name: each for name, each in schema.items() if name != "allOf"}
        ways = []
        for each in schema["allOf"]:
            properties = {**plain["properties"], **each["if"]["properties"]}
            properties |= each["then"].get("properties", {})
            required = [*plain["required"], *each["then"].get("required", [])]
            ways.append(self.of({**plain, "properties": properties, "required": required}))
        return st.one_of(ways)

    def _kind(self, kind, schema):
        match kind:
            case "null":
                return st.none()
            case "boolean":
                return st.booleans()
            case "integer":
                return st.integers(schema.get("minimum", -9), schema.get("maximum", 9))
            case "number":
                least, most = schema.get("minimum"), schema.get("maximum")
                return st.integers(math.ceil(least or 0), 50) | st.floats(
                    least, most, allow_nan=False, allow_infinity=False
                )
            case "string" if "pattern" in schema:
                return NAMES | st.from_regex(schema["pattern"], fullmatch=True)
            case "string":
                short = max(schema.get("minLength", 0), min(schema.get("maxLength", 8), 8))
                texts = st.text(
                    st.characters(codec="utf-8"),
                    min_size=schema.get("minLength", 0),
                    max_size=max(short, schema.get("minLength", 0)),
                )
                return texts | NAMES if schema.get("minLength", 0) <= 1 else texts
            case "array":
                least = schema.get("minItems", 0)
                return st.lists(
                    self.of(schema.get("items", {})), min_size=least, max_size=least + FEW
                )
            case "object":
                return self._object(schema)
        raise AssertionError(f"the test does not know the type {kind}")

    def _object(self, schema):
        fields = {
            name: self._named(name, each) for name, each in schema.get("properties", {}).items()
        }
        needed = {name: fields.pop(name) for name in schema.get("required", [])}
        made = st.fixed_dictionaries(needed, optional=fields)
        more = schema.get("additionalProperties", {})
        if more is False or schema.get("properties"):
            return made
        values = self.of(more) if isinstance(more, dict) and more else ANYTHING
        least = schema.get("minProperties", 0)
        return st.dictionaries(NAMES | TEXT, values, min_size=least, max_size=least + FEW)


@st.composite
def broken(draw, made, ways=FEW_WAYS):
    """What was drawn, with nothing to two of its places replaced, left out or doubled."""
    value = copy.deepcopy(draw(made))
    for _ in range(draw(ways)):
        places = list(_places(value))
        if not places:
            return draw(ANYTHING)
        inside, name = draw(st.sampled_from(places))
        match draw(st.integers(0, 2)):
            case 0:
                inside[name] = draw(ANYTHING)
            case 1:
                del inside[name]
            case 2 if isinstance(inside, dict):
                inside[draw(TEXT)] = inside[name]
            case 2:
                inside.append(inside[name])
    return value


def _places(value):
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for name in list(keys) if isinstance(value, dict | list) else ():
        yield value, name
        if isinstance(value[name], dict | list):
            yield from _places(value[name])
