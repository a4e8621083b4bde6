"""The type ``function``: see the class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State
from atoll.runtime.events import FieldName
from atoll.runtime.formulas.evaluate import Unfit, evaluate
from atoll.runtime.formulas.parse import Malformed, parse_formula
from atoll.runtime.problems import Problem


class FunctionParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a function.

    Args:
        function: The formula, at most 4,096 characters.
        outputfield: The field that its value is put into.
    """

    function: str
    outputfield: FieldName


class Function(ActorType[FunctionParams]):
    """Emits the value of a formula over every event, alone in a field.

    [Formulas](../concepts/runtimes.md#formulas) know fields by path, and collected values by their
    aliases. An event that lacks one of the fields emits nothing; values that do not fit the formula
    are a failure.
    """

    name = "function"
    params = FunctionParams
    aliases = None
    example: ClassVar[dict[str, Any]] = {
        "function": "order.total > 100 && !(country == 'nl')",
        "outputfield": "dear",
    }

    def check(self, params: FunctionParams) -> Iterator[Problem]:
        """The formula can be read."""
        try:
            parse_formula(params.function)
        except Malformed as error:
            hint = "write it as in x.y[0] >= 10 && name != 'ann'"
            yield Problem("invalid-actor", "/function", str(error), hint)

    def trigger(self, params: FunctionParams, state: State, event: Event, given: Given) -> Result:
        """The value."""
        try:
            value = evaluate(params.function, event, dict(given.collected))
        except Unfit as error:
            return Result(state, failure=str(error))
        return Result(state, () if value is None else ({params.outputfield: value},))
