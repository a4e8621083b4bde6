"""Follows paths through values in memory, to change them: each change makes a new value.

Nothing is changed in place, so what a change has not touched is the very same object after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from atoll.codec.detached import detached
from atoll.errors import StateError
from atoll.path import VOID, Path, Step
from atoll.pstate.navigate.budget import current_budget
from atoll.pstate.navigate.walker import (
    KINDS,
    Collected,
    Walker,
    collect,
    default_of,
    passes,
)

_WALKER = Walker()


def transformed(value: Any, path: Path) -> Any:
    """A value as a path that ends in a term leaves it; None when that deletes it."""
    new = changed(value, path.steps)
    return None if new is VOID else new


def changed(value: Any, steps: Sequence[Step], collected: Collected = ()) -> Any:
    """A value as steps that end in a term leave it; VOID when they delete it."""
    step, rest = steps[0], steps[1:]
    control = _CONTROLS.get(step.name)
    if control is not None:
        return control(value, step, rest, collected)
    return KINDS[step.name].change(value, step, lambda v: changed(v, rest, collected))


_Rest = Sequence[Step]


def _term(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:  # noqa: ARG001
    function, *arguments = step.arguments
    own = detached(value)
    return checked_result(value, own, function(*collected, own, *arguments))


def checked_result(before: Any, given: Any, result: Any) -> Any:
    """What a function made of a value that it was given.

    Raises:
        StateError: When it changed the value in place and returned None, as ``list.append`` does.
    """
    if result is None and given is not before and given != before:
        raise StateError(
            f"a function changed the {type(given).__name__} that it was given and returned None",
            hint="let it return the new value: lambda items: [*items, item]",
            value=repr(given)[:100],
        )
    return result


def _set(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:  # noqa: ARG001
    return step.arguments[0]


def _delete(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:  # noqa: ARG001
    return VOID


def _stop(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:  # noqa: ARG001
    return value


def _several(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    budget = current_budget()
    for path in step.arguments:
        if budget is not None:
            budget.branch()
        value = changed(value, (*path.steps, *rest), collected)
        if value is VOID:
            break
    return value


def _branch(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    condition, then, *otherwise = step.arguments
    if _WALKER.leads_anywhere(value, condition):
        return changed(value, (*then.steps, *rest), collected)
    if otherwise:
        return changed(value, (*otherwise[0].steps, *rest), collected)
    return value


def _filter(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    return changed(value, rest, collected) if passes(value, step.arguments) else value


def _selected(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    wanted = step.name == "filter_selected"
    if _WALKER.leads_anywhere(value, step.arguments[0]) is wanted:
        return changed(value, rest, collected)
    return value


def _null_to(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    return changed(default_of(step) if value is None else value, rest, collected)


def _view(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    function, *arguments = step.arguments
    return changed(function(value, *arguments), rest, collected)


def _transformed(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    return changed(transformed(value, step.arguments[0]), rest, collected)


def _subselect(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    path = path_of_list(step)
    found = [each for each, _ in _WALKER.walk(value, path.steps)]
    return changed(value, (*path.steps, giving(changed(found, rest, collected))))


def path_of_list(step: Step) -> Path:
    """The path whose hits a ``subselect`` or ``filtered_list`` makes a list of."""
    (path,) = step.arguments
    return path if step.name == "subselect" else Path().all().filter_selected(path)


def giving(new: Any) -> Step:
    """A term that gives each place in turn the next of these values, and VOID after the last."""
    following: Iterator[Any] = iter(() if new is VOID or new is None else tuple(new))
    return Step("term", (lambda *_: next(following, VOID),))


def _collect(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    return changed(value, rest, collect(_WALKER, value, step, collected))


def _is_collected(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    return changed(value, rest, collected) if step.arguments[0](*collected) else value


def _custom(value: Any, step: Step, rest: _Rest, collected: Collected) -> Any:
    return step.arguments[0].transform(value, lambda v: changed(v, rest, collected))


_CONTROLS: dict[str, Callable[[Any, Step, _Rest, Collected], Any]] = {
    "term": _term,
    "set": _set,
    "delete": _delete,
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
    "filtered_list": _subselect,
    "collect": _collect,
    "collect_one": _collect,
    "put_collected": _collect,
    "dispense_collected": _collect,
    "is_collected": _is_collected,
    "custom": _custom,
}
