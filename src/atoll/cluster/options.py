"""The options of a running module: what is set, what follows from it, and setting them.

A change is durable before it takes effect, and each topology takes it with its next microbatch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from atoll.errors import NotFoundError, UsageError
from atoll.logs import get_logger
from atoll.markup import table
from atoll.microbatch.control.options import Level, Options, by_present_name, present_name
from atoll.microbatch.control.requests import Requests
from atoll.microbatch.control.tuning import SettingsLog, effective
from atoll.microbatch.epochs import Epoch

_log = get_logger("atoll.cluster")


class ModuleOptions:
    """The options of one module. Safe from any thread.

    Args:
        log: Where changes are kept.
        epoch: The life on whose behalf they are made.
        declared: For each topology what its declaration sets.
        topologies: What runs, by name.
        depots: The names of the module's depots.
        pstates: The names of its PStates.
        now_ms: The clock.
    """

    def __init__(  # noqa: PLR0913  # the parts are injected once, by the app
        self,
        log: SettingsLog,
        epoch: Epoch,
        *,
        declared: Mapping[str, Mapping[str, int]],
        topologies: Mapping[str, Requests],
        depots: Collection[str],
        pstates: Collection[str],
        now_ms: Callable[[], int],
    ) -> None:
        """What was set in earlier lives stands."""
        self._log = log
        self._epoch = epoch
        self._declared = declared
        self._topologies = topologies
        self._known: dict[Level, Collection[str]] = {
            "topology": topologies,
            "depot": depots,
            "pstate": pstates,
        }
        self._now_ms = now_ms
        self._changing = threading.Lock()
        self._number, self._settings = log.latest()
        for option, value, instead in self._settings.beyond_bounds():
            _log.warning("an option is beyond its bounds", option=option, value=value, used=instead)

    def set(
        self,
        option: str,
        value: int,
        *,
        topology: str | None = None,
        depot: str | None = None,
        pstate: str | None = None,
    ) -> None:
        """Set an option, from each topology's next microbatch on and over restarts.

        Args:
            option: Its name.
            value: Its value.
            topology: For this topology only; for the whole module when none is given.
            depot: For this depot only, in all topologies that read it.
            pstate: For this PState only.

        Raises:
            DeclarationError: When there is no such option, or it cannot have the value.
            UsageError: When it cannot be set there.
            NotFoundError: When the module has no such topology, depot or PState.
            FencedError: When another process took the module over.
        """
        level, name = self._place(topology, depot, pstate)
        if value is None:
            raise UsageError(f"option {option!r} needs a value", hint="unset(...) takes it back")
        self._change(level, name, option, value)

    def unset(
        self,
        option: str,
        *,
        topology: str | None = None,
        depot: str | None = None,
        pstate: str | None = None,
    ) -> None:
        """Take back what :meth:`set` set there; nothing when nothing was set.

        Raises:
            DeclarationError: When there is no such option.
            UsageError: When it cannot be set there.
            NotFoundError: When the module has no such topology, depot or PState.
            FencedError: When another process took the module over.
        """
        level, name = self._place(topology, depot, pstate)
        self._change(level, name, option, None)

    def get(
        self,
        option: str,
        *,
        topology: str | None = None,
        depot: str | None = None,
        pstate: str | None = None,
    ) -> int:
        """The value that stands for a topology, or for a depot or PState of it.

        Args:
            option: Its name.
            topology: Which one; not needed when the module has one.
            depot: The value for this depot.
            pstate: The value for this PState.

        Raises:
            NotFoundError: When there is no such option, topology, depot or PState.
            UsageError: When the module has several topologies and none is named.
        """
        for level, name in (("topology", topology), ("depot", depot), ("pstate", pstate)):
            if name is not None:
                self._found(level, name)  # type: ignore[arg-type]  # literals, in a loop
        if topology is None:
            if len(self._topologies) != 1:
                raise UsageError(
                    "the module has several topologies, or none",
                    hint="name one of " + ", ".join(sorted(self._topologies)),
                )
            (topology,) = self._topologies
        options = self.effective(topology)
        if depot is not None:
            options = options.for_depot(depot)
        if pstate is not None:
            options = options.for_pstate(pstate)
        values = options.by_name()
        if present_name(option) not in values:
            raise NotFoundError(f"there is no option {option!r}", hint=", ".join(values))
        return values[present_name(option)]

    def effective(self, topology: str) -> Options:
        """All options of a topology."""
        return effective(self._declared[topology], self._settings, topology)

    def describe(self) -> dict[str, Any]:
        """What is set by level, and what stands for each topology, JSON-able."""
        stands = {
            level: {name: by_present_name(values) for name, values in names.items()}
            for level, names in self._settings.values.items()
            if names
        }
        return {
            "set": {
                level: names[""] if level == "module" else names for level, names in stands.items()
            },
            "declared": {
                name: by_present_name(values) for name, values in self._declared.items() if values
            },
            "topologies": {
                name: {
                    "options": options.by_name(),
                    "depots": {key: dict(each) for key, each in options.by_depot.items() if each},
                    "pstates": {key: dict(each) for key, each in options.by_pstate.items() if each},
                }
                for name in sorted(self._topologies)
                for options in [self.effective(name)]
            },
        }

    def _repr_html_(self) -> str:
        """What stands for each topology, for a notebook."""
        names = sorted(self._topologies)
        values = [self.effective(name).by_name() for name in names]
        rows = [[option, *(each[option] for each in values)] for option in Options().by_name()]
        return table(["option", *names], rows)

    def _change(self, level: Level, name: str, option: str, value: int | None) -> None:
        with self._changing:
            changed = self._settings.changed(level, name, option, value)
            if changed.values == self._settings.values:
                return
            self._epoch.check()
            changed = msgspec.structs.replace(
                changed, epoch=self._epoch.number, at_ms=self._now_ms()
            )
            if not self._log.create(self._number + 1, changed):
                self._epoch.check()  # only a later life makes them too
                raise UsageError("another process set an option at this moment", hint="try again")
            self._number, self._settings = self._number + 1, changed
            for topology, running in self._topologies.items():
                running.set_options(self.effective(topology))

    def _place(
        self, topology: str | None, depot: str | None, pstate: str | None
    ) -> tuple[Level, str]:
        given: list[tuple[Level, str]] = []
        for level, name in (("topology", topology), ("depot", depot), ("pstate", pstate)):
            if name is not None:
                given.append((level, name))  # type: ignore[arg-type]  # literals, in a loop
        if len(given) > 1:
            raise UsageError(
                "an option is set for one topology, depot or PState at a time",
                hint="name one of them, or none for the whole module",
            )
        if not given:
            return "module", ""
        self._found(*given[0])
        return given[0]

    def _found(self, level: Level, name: str) -> None:
        if name not in self._known[level]:
            raise NotFoundError(
                f"the module has no {level} {name!r}",
                hint="it has "
                + (", ".join(sorted(n for n in self._known[level] if n[0] != "_")) or "none"),
            )
