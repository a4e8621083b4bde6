"""The type ``fsm``: see the class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State
from atoll.runtime.events import FieldName, text_of
from atoll.runtime.problems import Problem


class FsmParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of an fsm.

    Args:
        key: The field with the input.
        table: Per state the next one for each input.
        s0: The state at the beginning, one of the table's.
    """

    key: FieldName
    table: Annotated[dict[str, dict[str, str]], msgspec.Meta(min_length=1, max_length=10_000)]
    s0: str


class Fsm(ActorType[FsmParams]):
    """Keeps the state of a finite state machine, which a field of the events moves; emits nothing.

    A state without a row in the table moves as ``s0`` does. An input that a row does not know, or
    an event without the field, leaves the state as it is.
    """

    name = "fsm"
    params = FsmParams
    stateful = True
    emits = False
    resettable = True
    fields = ("s",)
    modes = frozenset({"calc-local"})
    example: ClassVar[dict[str, Any]] = {
        "key": "transaction",
        "table": {
            "normal": {"small": "normal", "large": "normal", "x-large": "suspicious"},
            "suspicious": {"small": "normal", "large": "suspicious", "x-large": "alarm"},
            "alarm": {"small": "suspicious", "large": "alarm", "x-large": "alarm"},
        },
        "s0": "normal",
    }

    def check(self, params: FsmParams) -> Iterator[Problem]:
        """The first state has a row."""
        if params.s0 not in params.table:
            what = "s0 is no state of the table"
            yield Problem("invalid-actor", "/s0", what, "name a state of the table")

    def initial(self, params: FsmParams) -> State:
        """The first state."""
        return {"s": params.s0}

    def trigger(self, params: FsmParams, state: State, event: Event, given: Given) -> Result:
        """The next state."""
        text = text_of(event.get(params.key))
        row = params.table.get(state["s"], params.table[params.s0])
        return Result(state if text is None else {"s": row.get(text, state["s"])})

    def read(self, params: FsmParams, state: State) -> dict[str, Any]:
        """The state that it is in."""
        return {"s": state["s"]}
