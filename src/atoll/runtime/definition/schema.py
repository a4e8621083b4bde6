"""The JSON Schema of a definition, for editors: made of the Structs that one is read by.

It says less than the reader, since a schema cannot compare one place with another: names that are
given twice, links to nobody, circles, modes that cannot be together. What the reader takes, the
schema takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from atoll.runtime.actors.interface import ActorType
from atoll.runtime.actors.registry import actor_types
from atoll.runtime.definition.actor import COPIES_MAX, GroupGiven, LogGiven, TimeoutGiven
from atoll.runtime.definition.described import fields_of, summary_of
from atoll.runtime.definition.distribution import MODES, DistributionGiven
from atoll.runtime.definition.states import ModeGiven

Schema = dict[str, Any]
_NAME = {"type": "string", "minLength": 1, "maxLength": 63}
_OWNER = r"^[^/\u0000-\u001f\u007f]+$"
_REF = "#/$defs/{name}"


def definition_schema(types: Mapping[str, ActorType[Any]] | None = None) -> Schema:
    """The schema, in the dialect of 2020-12, as plain data.

    Args:
        types: The types that actors may have; all that are registered unless given.
    """
    kinds = actor_types() if types is None else types
    given = [each.params for each in kinds.values()]
    defs = _definitions([*given, GroupGiven, LogGiven, TimeoutGiven, DistributionGiven, ModeGiven])
    defs["DistributionGiven"]["properties"]["mode"]["enum"] = list(MODES)
    defs["Actor"] = _actor(kinds)
    defs["Collect"] = _collect()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Definition of a runtime",
        "type": "object",
        "required": ["name", "actors", "links"],
        "additionalProperties": False,
        "properties": {
            "name": {
                **_NAME,
                "pattern": "^[A-Za-z0-9][A-Za-z0-9_]{0,62}$",
                "description": "What the runtime is called; a name once used is not given again.",
            },
            "owner": {"type": ["string", "null"], "maxLength": 256, "pattern": _OWNER},
            "projectid": {"type": ["string", "null"], "minLength": 32},
            "actors": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Actor"}},
            "links": {"type": "array", "minItems": 1, "items": _link()},
            "distribution": _or_null({"$ref": "#/$defs/DistributionGiven"}),
        },
        "$defs": dict(sorted(defs.items())),
    }


def _definitions(kinds: Iterable[type[Any]]) -> dict[str, Schema]:
    """A schema per Struct, and per Struct within one, with the words of their docstrings."""
    structs = {each.__name__: each for each in _with_inner(kinds)}
    _, found = msgspec.json.schema_components(structs.values(), ref_template=_REF)
    for name, schema in found.items():
        words = fields_of(structs[name])
        encoded = {field.name: field.encode_name for field in msgspec.structs.fields(structs[name])}
        schema["description"] = summary_of(structs[name])
        for field, text in words.items():
            schema["properties"][encoded[field]]["description"] = text
    return dict(found)


def _with_inner(kinds: Iterable[type[Any]]) -> dict[type[Any], None]:
    """These Structs and all that their fields hold."""
    found: dict[type[Any], None] = {}

    def visit(wanted: msgspec.inspect.Type) -> None:
        if isinstance(wanted, msgspec.inspect.StructType) and wanted.cls not in found:
            found[wanted.cls] = None
            for field in wanted.fields:
                visit(field.type)
        for name in ("type", "item_type", "value_type"):
            inner = getattr(wanted, name, None)
            if isinstance(inner, msgspec.inspect.Type):
                visit(inner)
        for inner in getattr(wanted, "types", ()):
            visit(inner)

    for kind in kinds:
        visit(msgspec.inspect.type_info(kind))
    return found


def _actor(kinds: Mapping[str, ActorType[Any]]) -> Schema:
    mode = {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/ModeGiven"}]}
    modes = dict.fromkeys(("collect-local", "spark-batch", "log-batch"), mode)
    return {
        "description": "A runtime actor: a name, a type, and the type's params.",
        "type": "object",
        "required": ["name", "type"],
        "additionalProperties": False,
        "properties": {
            "name": {**_NAME, "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"},
            "type": {"enum": sorted(kinds)},
            "params": {"type": ["object", "null"]},
            "group": {"$ref": "#/$defs/GroupGiven"},
            "collect": _or_null(
                {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Collect"}}
            ),
            "copies": {"type": "integer", "minimum": 1, "maximum": COPIES_MAX},
            "log": {"$ref": "#/$defs/LogGiven"},
            "state": {
                "type": ["object", "null"],
                "additionalProperties": False,
                "properties": {"calc-local": {"type": "boolean"}, **modes},
            },
            "timeout": {"$ref": "#/$defs/TimeoutGiven"},
        },
        "allOf": [_of_type(name, kinds[name]) for name in sorted(kinds)],
    }


def _of_type(name: str, kind: ActorType[Any]) -> Schema:
    """What an actor of one type must be."""
    required = any(field.required for field in msgspec.structs.fields(kind.params))
    params: Schema = {"$ref": _REF.format(name=kind.params.__name__)}
    then: Schema = {"properties": {"params": params if required else _or_null(params)}}
    needed = ["params"] if required else []
    needed += ["collect"] if kind.aliases else []
    if needed:
        then["required"] = needed
    then["description"] = summary_of(type(kind))
    return {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": then}


def _collect() -> Schema:
    name = {"type": "string", "pattern": "^[A-Za-z0-9_]{1,256}$"}
    return {
        "description": "A value of a sibling's: one of its fields, or its answer to an event.",
        "type": "object",
        "required": ["alias", "from"],
        "additionalProperties": False,
        "properties": {
            "alias": {**name, "description": "What the actor calls the value."},
            "from": {"type": "string", "minLength": 1, "description": "The sibling."},
            "field": {**name, "description": "A field of its state."},
            "data": {"type": "object", "description": "An event for it to answer."},
        },
        "oneOf": [{"required": ["field"]}, {"required": ["data"]}],
    }


def _link() -> Schema:
    return {
        "description": "Events that the one actor emits go to the other.",
        "type": "object",
        "required": ["from", "to"],
        "additionalProperties": False,
        "properties": {"from": {"type": "string"}, "to": {"type": "string"}},
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}
