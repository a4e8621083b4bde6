"""Keys as a person types them, made into keys of the type that the PState's schema wants.

The schema arrives as the plain data that ``atoll.schema.to_json`` wrote.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from atoll import schema
from atoll.errors import PathError
from atoll.schema import List, Map, Node, Scalar, Set, Struct


def typed_keys(node: Node, texts: Sequence[str]) -> tuple[list[list[Any]], Node]:
    """The path steps for the keys, and the node where they end.

    Raises:
        PathError: When the schema has no such depth, field or type of key.
    """
    steps: list[list[Any]] = []
    for text in texts:
        match node:
            case Map(key=key, value=value):
                steps.append(["key", _typed(key, text)])
                node = schema.as_node(value)
            case Struct():
                child = node.get(text)
                if child is None:
                    raise PathError(
                        f"the struct has no field {text!r}",
                        hint=f"its fields are {', '.join(node.names())}",
                    )
                steps.append(["field", text])
                node = child
            case Set() | List() | Scalar():
                raise PathError(
                    f"nothing can be looked up by {text!r} in {node}",
                    hint=f"give {len(steps)} keys, or a path with --path",
                )
    return steps, node


def _typed(key: Scalar, text: str) -> Any:
    """The JSON value that stands for this text as a key of this kind."""
    if key.optional and text == "null":
        return None
    try:
        match key.kind:
            case "int":
                return int(text)
            case "float":
                return _float(float(text))
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "tuple":
                return json.loads(text)
            case _:
                return text
    except (ValueError, KeyError):
        raise PathError(
            f"{text!r} is no key of type {key}",
            hint="write a tuple as a JSON array, '[1, \"a\"]'"
            if key.kind == "tuple"
            else f"the keys here are of type {key}",
        ) from None


def _float(value: float) -> float | str:
    """As a path has it in JSON, which knows finite numbers only."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
