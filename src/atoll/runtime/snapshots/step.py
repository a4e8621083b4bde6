"""The function of the step that counts: the batch state calculator inside a microbatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from atoll.runtime.engine.copies import loaded_program
from atoll.runtime.snapshots.counting import Counted, counted, offered, registered, ticked

_decoder = msgspec.json.Decoder(Counted)


def load(data: str | None) -> Counted:
    """What is stored of an actor."""
    return Counted() if data is None else _decoder.decode(data)


def calculator_function(name: str, given: bytes, copies: int) -> Callable[..., None]:
    """What ``process`` calls for each row that leaves a copy for the calculator, and each tick."""

    def calculate(row: Any, calculator: Any) -> None:
        for actor, program in loaded_program(name, given, copies).batch.items():
            if row.actor not in ("", actor) or program.batch is None:
                continue
            before = load(calculator.get(actor))
            after = _after(before, row, msgspec.json.decode(row.body), program.batch)
            if after is not before:
                calculator[actor] = msgspec.json.encode(after).decode()

    return calculate


def _after(state: Counted, row: Any, body: Any, update: Any) -> Counted:
    match row.kind:
        case "register":
            return registered(state, body["instances"], body["copies"], row.at, update)
        case "count":
            return counted(state, body, row.at, update)
        case "offer":
            return offered(state, row.number, body["by"], body["events"], row.at)
        case "tick":
            return ticked(state, row.at, update)
    return state
