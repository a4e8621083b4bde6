"""Which way rows came to an operator: what tells apart hidden state that is otherwise the same."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from atoll.topology.kept.hidden import digest, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.topology.operator import Operator


def way_after(operator: Operator, ways: Mapping[Operator, str], *, exact: bool = False) -> str:
    """The digest of the steps up to an operator; those of its inputs are known.

    Functions count by their names; with ``exact`` by what they are, which only this process knows.
    """
    skipped = {"inputs", "place", "serves", "start_from", "hidden", "clock", "closed_ms", "label"}
    parts = [type(operator).__name__, *(ways[each] for each in operator.inputs)]
    for field in dataclasses.fields(operator):
        named = field.name == "name" and hasattr(operator, "hidden")
        if field.name not in skipped and not named:
            value = getattr(operator, field.name)
            known = id(value) if exact and callable(value) else in_words(value)
            parts.append(f"{field.name}={known}")
    return digest("\n".join(parts))
