"""The state of a topology's microbatch, to be read as a PState is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atoll.errors import PathError
from atoll.path import Path
from atoll.pstate.navigate.fit_path import fit_path
from atoll.pstate.navigate.walker import Walker
from atoll.schema import List, Map, Struct, as_node

_SCHEMA = as_node(
    Struct(id=int, version=int, phase=str, ranges=Map(str, List(List(int))), since_ms=int)
)


class MicrobatchState:
    """What a topology is at: ``id``, ``version``, ``phase``, ``ranges`` and ``since_ms``.

    As it is at the moment of asking: the phase is the numbered step, or ``idle``; then id, version
    and ranges are those of the last microbatch that committed. The ranges are by depot or tick,
    of each depot partition the first offset and the one behind the last.
    """

    def __init__(self, ask: Callable[[], dict[str, Any]]) -> None:
        """Made by :attr:`RunningTopology.microbatch_state`."""
        self._ask = ask

    def get(self) -> dict[str, Any]:
        """All of it, of one moment; ``since_ms`` is when the phase began, since 1970."""
        return self._ask()

    def select(self, path: Path) -> list[Any]:
        """All values that the path leads to, of one moment.

        Raises:
            PathError: When the path does not fit.
        """
        fitted = fit_path(path, _SCHEMA)
        return list(Walker().results(self._ask(), fitted))

    def select_one(self, path: Path) -> Any:
        """The one value that the path leads to.

        Raises:
            PathError: When it leads to none or to several, or does not fit.
        """
        found = self.select(path)
        if len(found) != 1:
            raise PathError(
                f"the path leads to {len(found)} values, not to one",
                hint="use select, which returns a list",
            )
        return found[0]
