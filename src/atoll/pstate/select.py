"""Reads a PState along a path, at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atoll.errors import PathError
from atoll.path import Path
from atoll.pstate.navigate.budget import BudgetedReader, current_budget
from atoll.pstate.navigate.fit_path import fit_path
from atoll.pstate.navigate.places import Places
from atoll.pstate.navigate.stored import StoredWalker
from atoll.pstate.reader import Reader
from atoll.pstate.spec import PStateSpec


def select(reader: Reader, spec: PStateSpec, path: Path) -> list[Any]:
    """Every value that the path navigates to.

    Raises:
        PathError: When the path does not fit the schema.
    """
    return list(iterate(reader, spec, path))


def iterate(reader: Reader, spec: PStateSpec, path: Path) -> Iterator[Any]:
    """Every value that the path navigates to, read as the iteration goes on.

    Raises:
        PathError: When the path does not fit the schema; at once.
    """
    fitted = fit_path(path, spec.node)
    budget = current_budget()
    if budget is not None:
        reader = BudgetedReader(reader, budget)
    places = Places(reader, spec)
    return StoredWalker(places).results(places.root(), fitted)


def select_one(reader: Reader, spec: PStateSpec, path: Path) -> Any:
    """The one value that the path navigates to.

    Raises:
        PathError: When it navigates to none or to several, or does not fit the schema.
    """
    found = select(reader, spec, path)
    if len(found) == 1:
        return found[0]
    raise PathError(
        f"the path leads to {len(found)} values, not to one",
        hint="use select() for any number of values",
        pstate=spec.name,
        path=str(path),
    )
