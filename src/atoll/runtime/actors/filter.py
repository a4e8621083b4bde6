"""The type ``filter``: see the class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State
from atoll.runtime.problems import Problem

__all__ = ["Filter"]


class FilterRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of a filter.

    Args:
        type: How the field is compared; ``startswith`` is the only way.
        function: ``include`` lets pass what begins so, ``exclude`` what does not.
        field: The field with the text; a missing one begins with nothing.
        param: How it must begin.
    """

    type: Literal["startswith"]
    function: Literal["include", "exclude"]
    field: str
    param: str

    def passes(self, event: Event) -> bool:
        """Whether this rule lets the event pass."""
        value = event.get(self.field)
        found = type(value) is str and value.startswith(self.param)
        return found == (self.function == "include")


class FilterParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a filter.

    Args:
        filters: The rules; an event passes when it passes every one.
    """

    filters: tuple[FilterRule, ...]


class Filter(ActorType[FilterParams]):
    """Emits the events that pass every rule, unchanged."""

    name = "filter"
    params = FilterParams
    example: ClassVar[dict[str, Any]] = {
        "filters": [{"type": "startswith", "function": "include", "field": "url", "param": "/api"}]
    }

    def check(self, params: FilterParams) -> Iterator[Problem]:
        """There is a rule."""
        if not params.filters:
            yield Problem("invalid-actor", "/filters", "there are no filters", "give at least one")

    def trigger(self, params: FilterParams, state: State, event: Event, given: Given) -> Result:
        """The event, or nothing."""
        passes = all(rule.passes(event) for rule in params.filters)
        return Result(state, (event,) if passes else ())
