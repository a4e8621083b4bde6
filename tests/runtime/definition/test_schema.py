"""Holds that the JSON Schema says what the reader does, as far as a schema can."""

from __future__ import annotations

import json
import random
import re

import pytest
from hostile import HOSTILE, RIGHT, changed, mutated
from random_runtimes import random_definition

from atoll.runtime.actors.registry import actor_types
from atoll.runtime.definition.read import check_definition
from atoll.runtime.definition.schema import definition_schema

SCHEMA = definition_schema()
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def fits(data, schema):
    """Whether data is as a schema says; knows the words that ours uses, and no others."""
    for word, value in schema.items():
        if word not in WORDS:
            raise AssertionError(f"the test does not know {word}")
        if not WORDS[word](data, value, schema):
            return False
    return True


def _is(data, names):
    names = [names] if isinstance(names, str) else names
    number = isinstance(data, int | float) and not isinstance(data, bool)
    return any(
        number and isinstance(data, TYPES[name])
        if name in {"integer", "number"}
        else isinstance(data, TYPES[name])
        for name in names
    )


def _resolved(reference):
    return SCHEMA["$defs"][reference.removeprefix("#/$defs/")]


def _always(data, value, schema):
    return True


WORDS = {
    "type": lambda data, names, _: _is(data, names),
    "$ref": lambda data, reference, _: fits(data, _resolved(reference)),
    "enum": lambda data, values, _: data in values,
    "const": lambda data, value, _: data == value,
    "required": lambda data, names, _: not isinstance(data, dict) or all(n in data for n in names),
    "properties": lambda data, inner, _: (
        not isinstance(data, dict)
        or all(fits(data[name], each) for name, each in inner.items() if name in data)
    ),
    "additionalProperties": lambda data, inner, schema: (
        not isinstance(data, dict)
        or all(
            inner is not False and (inner is True or fits(value, inner))
            for name, value in data.items()
            if name not in schema.get("properties", {})
        )
    ),
    "items": lambda data, inner, _: not isinstance(data, list) or all(fits(e, inner) for e in data),
    "minItems": lambda data, n, _: not isinstance(data, list) or len(data) >= n,
    "maxItems": lambda data, n, _: not isinstance(data, list) or len(data) <= n,
    "minProperties": lambda data, n, _: not isinstance(data, dict) or len(data) >= n,
    "maxProperties": lambda data, n, _: not isinstance(data, dict) or len(data) <= n,
    "minLength": lambda data, n, _: not isinstance(data, str) or len(data) >= n,
    "maxLength": lambda data, n, _: not isinstance(data, str) or len(data) <= n,
    "pattern": lambda data, p, _: not isinstance(data, str) or bool(re.search(p, data)),
    "minimum": lambda data, n, _: not _is(data, "number") or data >= n,
    "maximum": lambda data, n, _: not _is(data, "number") or data <= n,
    "anyOf": lambda data, each, _: any(fits(data, one) for one in each),
    "oneOf": lambda data, each, _: sum(fits(data, one) for one in each) == 1,
    "allOf": lambda data, each, _: all(fits(data, one) for one in each),
    "if": lambda data, inner, schema: not fits(data, inner) or fits(data, schema["then"]),
    "then": _always,
    "default": _always,
    "description": _always,
    "title": _always,
    "$schema": _always,
    "$defs": _always,
}


def test_it_is_plain_data():
    """It can be published as it is, and is the same every time."""
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert definition_schema() == SCHEMA


def test_every_type_is_in_it():
    """An editor offers every type, with words for it and for each of its params."""
    actor = SCHEMA["$defs"]["Actor"]
    assert actor["properties"]["type"]["enum"] == sorted(actor_types())
    assert len(actor["allOf"]) == len(actor_types())
    for name, schema in SCHEMA["$defs"].items():
        assert schema["description"], name
        for field, each in schema.get("properties", {}).items():
            described = "description" in each or name == "Actor"
            assert described, f"{name}.{field}"


@pytest.mark.parametrize("name", sorted(actor_types()))
def test_the_example_of_a_type_fits(name):
    """The params that the reference shows are right, for the reader and for the schema."""
    kind = actor_types()[name]
    params = SCHEMA["$defs"][kind.params.__name__]
    assert fits(kind.example, params)
    assert not fits({**kind.example, "unknown": 1}, params)


def test_right_definitions_fit():
    """What the reader takes, the schema takes."""
    for data in [RIGHT, *(random_definition(seed, copies=3) for seed in range(50))]:
        assert fits(data, SCHEMA)


@pytest.mark.parametrize("seed", range(4))
def test_a_mutation_that_is_read_fits(seed):
    """An editor never marks what would be taken, and marks most of what would not."""
    chance = random.Random(f"schema {seed}")
    refused = marked = 0
    for _ in range(150):
        data = mutated(random_definition(chance.randrange(500), copies=2), chance)
        definition, _ = check_definition(data)
        found = fits(data, SCHEMA)
        if definition is not None:
            assert found
        else:
            refused += 1
            marked += not found
    assert marked > refused / 2


def test_most_hostile_definitions_are_marked():
    """Only what one place alone cannot say is left to the reader."""
    trials = [changed(*changes) for changes, kinds in HOSTILE if "too-large" not in kinds]
    assert sum(not fits(data, SCHEMA) for data in trials) > 0.7 * len(trials)
