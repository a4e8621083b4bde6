"""Checks a path against a schema, and turns what it carries into values of the schema's types.

Everything that can be wrong about a path without looking at the data is found here, before the
first read: keys of the wrong type, fields that do not exist, steps that a value does not have,
paths that read and end in a term, paths that write and do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from atoll.errors import PathError, StateError
from atoll.path import Path, Step
from atoll.path.steps import TERMS
from atoll.pstate.navigate.fit_value import fit_operand, fit_value
from atoll.pstate.ranked.fitting import RANKED_STEPS, fit_ranked
from atoll.schema import List, Map, Node, Scalar, Set, Struct


@dataclass(frozen=True, slots=True)
class _Pair:
    """What ``all()`` gives for a map: a key and a value."""

    first: _Shape
    last: _Shape


_Shape = Node | _Pair | None
"""What a step navigates to; None where the schema does not say (after a function, or ``or``)."""


class _Where(NamedTuple):
    """What is known of a step beside its shape.

    Attributes:
        outside: Whether texts may stand for other types.
        ends: Whether the path must end in a term with this step or a later one.
        last: Whether it is the last step of its path.
    """

    outside: bool
    ends: bool
    last: bool


_Fitted = tuple[Step, _Shape]


def fit_path(path: Path, node: Node) -> Path:
    """The same path, its keys and values of the schema's types, to read.

    Raises:
        PathError: When the path does not fit the schema, or writes.
    """
    _check_path(path)
    return _fit(path, node, path.from_outside, ends=False)[0]


def fit_transform(path: Path, node: Node) -> Path:
    """The same path, its keys and values of the schema's types, to write.

    Raises:
        PathError: When the path does not fit the schema, or does not end in a term.
    """
    _check_path(path)
    return _fit(path, node, path.from_outside, ends=True)[0]


def _check_path(path: object) -> None:
    if not isinstance(path, Path):
        raise PathError(
            f"{path!r} is no path", hint=f"write path.key({path!r}), with path of atoll"
        )


def _fit(path: Path, shape: _Shape, outside: bool, *, ends: bool) -> tuple[Path, _Shape]:  # noqa: FBT001
    if ends and not path.steps:
        raise _endless()
    steps = []
    for number, step in enumerate(path.steps):
        where = _Where(outside or path.from_outside, ends, number == len(path.steps) - 1)
        try:
            _check_end(step, where)
            fitted, shape = _STEPS[step.name](step, shape, where)
        except (PathError, StateError) as error:
            context = {name: error.context[name] for name in ("step",) if name in error.context}
            raise PathError(
                f"{step} does not fit the schema: {error.message}",
                hint=error.hint,
                **{"step": number, **context},
            ) from None
        steps.append(fitted)
    return Path(tuple(steps)), shape


_BRANCHES = ("multi_path", "if_path", "stop")
"""What a writing path may end in besides a term: where it goes on, or that it goes nowhere."""


def _check_end(step: Step, where: _Where) -> None:
    """Hold that a path ends in a term exactly when it must."""
    if step.name in TERMS and not where.ends:
        raise PathError(
            "this path writes, but is only read",
            hint="write with state.transform(path) in process, or with stream.update",
        )
    if step.name in TERMS and not where.last:
        raise PathError("nothing can follow a term", hint="make it the last step")
    if where.ends and where.last and step.name not in (*TERMS, *_BRANCHES):
        raise _endless()
    if where.ends and step.name == "size":
        raise PathError("a size cannot be written", hint="write the elements themselves")


def _endless() -> PathError:
    return PathError(
        "this path writes, but does not say what",
        hint="end it with term(function), set(value) or delete()",
    )


# -- keys and elements ---------------------------------------------------------------------------


def _fit_key(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    (key,) = step.arguments
    match shape:
        case Map():
            return Step(step.name, (fit_value(key, shape.key, where.outside),)), shape.value
        case Struct():
            member = shape.get(key) if isinstance(key, str) else None
            if member is None:
                raise PathError(
                    f"the struct has no field {key!r}",
                    hint=f"its fields are {', '.join(shape.names())}",
                )
            return step, member
        case None:
            return step, None
    raise PathError(f"{_word(shape)} has no keys", hint="leave the step out, or see the schema")


def _fit_all(step: Step, shape: _Shape, where: _Where) -> _Fitted:  # noqa: ARG001
    match shape:
        case Map():
            return step, _Pair(shape.key, shape.value)
        case Set() | List():
            return step, shape.item
        case Struct():
            raise PathError("a struct has fields, not entries", hint="use field(name)")
        case _Pair() if step.name in {"first", "last"}:
            return step, shape.first if step.name == "first" else shape.last
        case None | _Pair():
            return step, None
    raise PathError(f"{_word(shape)} has no elements", hint="leave the step out")


def _fit_map(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    match shape:
        case Map():
            keys = tuple(fit_value(key, shape.key, where.outside) for key in step.arguments)
            ends = {"keys": shape.key, "map_key": shape.key, "map_vals": shape.value}
            return Step(step.name, keys), ends.get(step.name, shape)
        case None:
            return step, None
    raise PathError(f"{_word(shape)} is no map", hint="use all() for every element")


def _fit_set(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    match shape:
        case Set():
            elements = tuple(fit_value(each, shape.item, where.outside) for each in step.arguments)
            return Step(step.name, elements), shape if step.name == "subset" else shape.item
        case None:
            return step, None
    raise PathError(f"{_word(shape)} is no set", hint="see the schema")


def _fit_size(step: Step, shape: _Shape, where: _Where) -> _Fitted:  # noqa: ARG001
    if isinstance(shape, Scalar | Struct):
        raise PathError(f"{_word(shape)} has no size", hint="leave the step out")
    return step, Scalar("int")


def _fit_range(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    start, end, *how = step.arguments
    match shape:
        case Map() | Set():
            kind = shape.key if isinstance(shape, Map) else shape.item
            low = None if start is None else fit_value(start, kind, where.outside)
            high = None if end is None else fit_value(end, kind, where.outside)
            result = shape if isinstance(shape, Map) else List(kind)
            return Step(step.name, (low, high, *how)), result
        case None:
            return step, None
    raise PathError(
        f"{_word(shape)} is not sorted by key", hint="ranges are parts of maps and sets"
    )


def _fit_list(step: Step, shape: _Shape, where: _Where) -> _Fitted:  # noqa: ARG001
    match shape:
        case List():
            if step.name == "index":
                return step, Scalar("int")
            if step.name == "indexed_vals":
                return step, _Pair(Scalar("int"), shape.item)
            return step, shape.item if step.name in _TO_ITEMS else shape
        case _Pair() if step.name == "nth":
            return step, {0: shape.first, -2: shape.first}.get(step.arguments[0], shape.last)
        case None | _Pair():
            return step, None
    raise PathError(f"{_word(shape)} is no list", hint="see the schema")


def _fit_rank(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    if where.ends:
        raise PathError("ranks are read, not written", hint="write the entries themselves")
    if not isinstance(shape, Map | Set):
        what = "this" if shape is None else _word(shape)
        raise PathError(f"{what} is not ranked", hint="ranks are those of a whole map or set")
    fitted = fit_ranked(step, shape, outside=where.outside)
    if step.name == "rank_of":
        return fitted, Scalar("int")
    return fitted, _Pair(shape.key, shape.value) if isinstance(shape, Map) else shape.item


_TO_ITEMS = frozenset({"nth", "before_elem", "after_elem", "before_index"})


# -- control --------------------------------------------------------------------------------------


def _fit_same(step: Step, shape: _Shape, where: _Where) -> _Fitted:  # noqa: ARG001
    return step, shape


def _fit_unknown(step: Step, shape: _Shape, where: _Where) -> _Fitted:  # noqa: ARG001
    return step, None


def _fit_filter(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    if len(step.arguments) == 1 or not isinstance(shape, Scalar):
        return step, shape
    comparison, value = step.arguments
    return Step("filter", (comparison, fit_operand(value, shape, where.outside))), shape


def _fit_value_of(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    """``null_to`` and ``set``: other shapes' values are checked where they are written."""
    if isinstance(shape, Scalar):
        return Step(step.name, (fit_operand(step.arguments[0], shape, where.outside),)), shape
    return step, shape


def _fit_empty(step: Step, shape: _Shape, where: _Where) -> _Fitted:  # noqa: ARG001
    if isinstance(shape, List if step.name == "null_to_list" else Set):
        return step, shape
    if shape is None:
        return step, None
    raise PathError(f"{_word(shape)} is not empty like that", hint="use null_to(value)")


def _fit_several(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    ends = where.ends and where.last
    paths = step.arguments
    fitted: list[Path] = []
    if step.name == "if_path":
        fitted.append(_fit(paths[0], shape, where.outside, ends=False)[0])
        paths = paths[1:]
    shapes = []
    for each in paths:
        path, end = _fit(each, shape, where.outside, ends=ends)
        fitted.append(path)
        shapes.append(end)
    same = bool(shapes) and all(each == shapes[0] for each in shapes)
    return Step(step.name, tuple(fitted)), shapes[0] if same else None


def _fit_within(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    """Steps with one path from where they stand."""
    path, _ = _fit(step.arguments[0], shape, where.outside, ends=step.name == "transformed")
    unknown = step.name in {"transformed", "subselect"}
    return Step(step.name, (path,)), None if unknown else shape


def _fit_filtered_list(step: Step, shape: _Shape, where: _Where) -> _Fitted:
    _, item = _fit_all(Step("all"), shape, where)
    path, _ = _fit(step.arguments[0], item, where.outside, ends=False)
    return Step(step.name, (path,)), shape if isinstance(shape, List) else None


_STEPS: dict[str, Callable[[Step, _Shape, _Where], _Fitted]] = {
    **dict.fromkeys(("key", "must", "field"), _fit_key),
    **dict.fromkeys(("all", "first", "last"), _fit_all),
    **dict.fromkeys(("keys", "map_vals", "map_key", "sub_map"), _fit_map),
    **dict.fromkeys(("set_elem", "void_set_elem", "subset"), _fit_set),
    "size": _fit_size,
    "sorted_range": _fit_range,
    **dict.fromkeys(RANKED_STEPS, _fit_rank),
    **dict.fromkeys(("nth", "index", "indexed_vals", "sublist", "sublist_dynamic"), _fit_list),
    **dict.fromkeys(("before_elem", "after_elem", "before_index", "beginning", "end"), _fit_list),
    "filter": _fit_filter,
    **dict.fromkeys(("null_to", "set"), _fit_value_of),
    **dict.fromkeys(("null_to_list", "null_to_set"), _fit_empty),
    **dict.fromkeys(("multi_path", "if_path"), _fit_several),
    **dict.fromkeys(("filter_selected", "filter_not_selected", "transformed"), _fit_within),
    **dict.fromkeys(("subselect", "collect", "collect_one"), _fit_within),
    "filtered_list": _fit_filtered_list,
    **dict.fromkeys(("put_collected", "dispense_collected", "is_collected"), _fit_same),
    **dict.fromkeys(("stop", "view", "custom", "term", "delete"), _fit_unknown),
}


def _word(shape: _Shape) -> str:
    match shape:
        case Scalar():
            return f"a value of type {shape}"
        case _Pair():
            return "a pair of key and value"
        case None:
            return "this"
    return f"a {type(shape).__name__.lower()}"
