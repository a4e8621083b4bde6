"""Follows paths through values in memory, to read.

A *spot* is where a path has come to: here a value; :mod:`~atoll.pstate.navigate.stored` knows
places in a store besides. The steps that control where to go on are the same for both.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from atoll.errors import PathError
from atoll.path import Path, Step
from atoll.pstate.navigate.budget import current_budget
from atoll.pstate.navigate.keyed import KEYED
from atoll.pstate.navigate.kinds import Kind
from atoll.pstate.navigate.listed import LISTED
from atoll.pstate.navigate.ordered import SortedSet

KINDS: dict[str, Kind] = KEYED | LISTED
"""How each step reads and changes values, but for those that control where to go on."""

Collected = tuple[Any, ...]
_Hits = Iterator[tuple[Any, Collected]]


class Walker:
    """Follows paths through values in memory."""

    def results(self, spot: Any, path: Path) -> Iterator[Any]:
        """What a path leads to: values, each behind what was collected on the way, if anything."""
        for found, collected in self.walk(spot, path.steps):
            value = self.read(found)
            yield (*collected, value) if collected else value

    def walk(self, spot: Any, steps: Sequence[Step], collected: Collected = ()) -> _Hits:
        """Every spot that the steps lead to, with what was collected."""
        if not steps:
            yield spot, collected
            return
        step, rest = steps[0], steps[1:]
        control = _CONTROLS.get(step.name)
        if control is None:
            for following in self.follow(spot, step):
                yield from self.walk(following, rest, collected)
        else:
            for following, now in control(self, spot, step, collected):
                yield from self.walk(following, rest, now)

    def leads_anywhere(self, spot: Any, path: Path) -> bool:
        """Whether a path leads anywhere from here; stops at the first place."""
        return any(True for _ in self.walk(spot, path.steps))

    def follow(self, spot: Any, step: Step) -> Iterable[Any]:
        """Every spot that one step leads to."""
        return KINDS[step.name].select(spot, step)

    def read(self, spot: Any) -> Any:
        """The value at a spot."""
        return spot

    def is_none(self, spot: Any) -> bool:
        """Whether the value at a spot is None."""
        return spot is None


# -- the steps that control where to go on ------------------------------------------------------


def _stop(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:  # noqa: ARG001
    return iter(())


def _several(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    budget = current_budget()
    for path in step.arguments:
        if budget is not None:
            budget.branch()
        yield from walker.walk(spot, path.steps, collected)


def _branch(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    condition, then, *otherwise = step.arguments
    if walker.leads_anywhere(spot, condition):
        yield from walker.walk(spot, then.steps, collected)
    elif otherwise:
        yield from walker.walk(spot, otherwise[0].steps, collected)


def _filter(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    value = walker.read(spot)
    if passes(value, step.arguments):
        yield value, collected


def _selected(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    wanted = step.name == "filter_selected"
    if walker.leads_anywhere(spot, step.arguments[0]) is wanted:
        yield spot, collected


def _null_to(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    yield (default_of(step) if walker.is_none(spot) else spot), collected


def _view(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    function, *arguments = step.arguments
    yield function(walker.read(spot), *arguments), collected


def _transformed(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    from atoll.pstate.navigate.changing import transformed

    yield transformed(walker.read(spot), step.arguments[0]), collected


def _subselect(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    yield list(walker.results(spot, step.arguments[0])), collected


def _filtered_list(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    yield list(walker.results(spot, Path().all().filter_selected(step.arguments[0]))), collected


def _collect(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    yield spot, collect(walker, spot, step, collected)


def _is_collected(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:  # noqa: ARG001
    if step.arguments[0](*collected):
        yield spot, collected


def _custom(walker: Walker, spot: Any, step: Step, collected: Collected) -> _Hits:
    for value in step.arguments[0].select(walker.read(spot)):
        yield value, collected


_CONTROLS: dict[str, Callable[[Walker, Any, Step, Collected], _Hits]] = {
    "stop": _stop,
    "multi_path": _several,
    "if_path": _branch,
    "filter": _filter,
    "filter_selected": _selected,
    "filter_not_selected": _selected,
    "null_to": _null_to,
    "null_to_list": _null_to,
    "null_to_set": _null_to,
    "view": _view,
    "transformed": _transformed,
    "subselect": _subselect,
    "filtered_list": _filtered_list,
    "collect": _collect,
    "collect_one": _collect,
    "put_collected": _collect,
    "dispense_collected": _collect,
    "is_collected": _is_collected,
    "custom": _custom,
}


def collect(walker: Walker, spot: Any, step: Step, collected: Collected) -> Collected:
    """What is collected behind one of the collecting steps."""
    match step.name:
        case "put_collected":
            return (*collected, step.arguments[0])
        case "dispense_collected":
            return ()
    found = list(walker.results(spot, step.arguments[0]))
    if step.name == "collect":
        return (*collected, found)
    if len(found) != 1:
        raise PathError(
            f"{step} met {len(found)} values, not one", hint="use collect(path) for any number"
        )
    return (*collected, found[0])


def default_of(step: Step) -> Any:
    """What one of the ``null_to`` steps puts in place of None."""
    if step.name == "null_to":
        return step.arguments[0]
    return [] if step.name == "null_to_list" else SortedSet()


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def passes(value: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a value passes a filter with these arguments."""
    if len(arguments) == 1:
        return bool(arguments[0](value))
    comparison, operand = arguments
    if comparison not in {"==", "!="} and (value is None or operand is None):
        return False
    try:
        return bool(_COMPARE[comparison](value, operand))
    except TypeError as error:
        raise PathError(
            f"filter({comparison!r}, {operand!r}) met a value that it cannot be compared with",
            hint="compare with a value of the same type",
            value_type=type(value).__name__,
        ) from error
