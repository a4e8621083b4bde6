"""Options that are set while a module runs: one numbered object per change, the highest stands.

What a topology's options are follows from them and from its declaration, level by level: depot and
PState before topology before module; within a level what was set while it runs before what is
declared. Only the life of the coordinator that is in charge makes the objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from atoll.errors import UsageError
from atoll.microbatch.control.options import (
    LEVELS,
    Level,
    Options,
    by_present_name,
    check_option,
    check_option_name,
    levels_of,
    present_name,
    within_bounds,
)
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore

_KEPT = 100
"""So many of the last ones are kept, to look at."""


class Settings(msgspec.Struct, frozen=True):
    """What is set, by level, then by the name of its topology, depot or PState, then by option.

    Attributes:
        values: The name at the level of the module is empty.
        epoch: The life of the coordinator that made it.
        at_ms: When.
    """

    values: dict[Level, dict[str, dict[str, int]]] = {}
    epoch: int = 0
    at_ms: int = 0

    def at(self, level: Level, name: str = "") -> dict[str, int]:
        """What is set for one thing; options of another version of Atoll left out.

        What an earlier version let be set beyond today's bounds counts as the bound.
        """
        found = by_present_name(self.values.get(level, {}).get(name, {}))
        return {
            option: within_bounds(option, value)
            for option, value in found.items()
            if level in levels_of(option)
        }

    def beyond_bounds(self) -> list[tuple[str, int, int]]:
        """Of what is set beyond today's bounds the option, the value, and what counts instead."""
        return [
            (option, value, self.at(level, name)[option])
            for level, names in self.values.items()
            for name, options in names.items()
            for option, value in by_present_name(options).items()
            if self.at(level, name).get(option, value) != value
        ]

    def changed(self, level: Level, name: str, option: str, value: int | None) -> Settings:
        """With one option set, or unset when the value is None.

        Raises:
            UsageError: When the option cannot be set at that level.
            DeclarationError: When there is no such option, or it cannot have the value.
        """
        option = present_name(option)
        if value is None:
            check_option_name(option)
        else:
            check_option(option, value)
        if level not in levels_of(option):
            raise UsageError(
                f"option {option!r} cannot be set for a {level}",
                hint="set it for a " + " or ".join(levels_of(option)),
            )
        values = {each: dict(self.values.get(each, {})) for each in LEVELS}
        stood = by_present_name(values[level].get(name, {}))
        known = {key: old for key, old in stood.items() if key != option}
        values[level][name] = known if value is None else {**known, option: value}
        return msgspec.structs.replace(
            self,
            values={
                each: {key: options for key, options in names.items() if options}
                for each, names in values.items()
            },
        )


def effective(declared: Mapping[str, int], settings: Settings, topology: str) -> Options:
    """The options of a topology.

    Raises:
        DeclarationError: When what is declared cannot be.
    """
    options = Options().with_values(settings.at("module")).with_values(declared)
    options = options.with_values(settings.at("topology", topology))
    by_depot = {name: settings.at("depot", name) for name in settings.values.get("depot", {})}
    by_pstate = {name: settings.at("pstate", name) for name in settings.values.get("pstate", {})}
    return replace(options, by_depot=by_depot, by_pstate=by_pstate)


class SettingsLog:
    """The sequence of one module."""

    def __init__(self, store: ObjectStore, module: str) -> None:
        self.objects = NumberedObjects(store, f"{module}/options")

    def latest(self) -> tuple[int, Settings]:
        """The number and the settings that stand; 0 and none before the first.

        Raises:
            DamageError: When they cannot be read.
        """
        number = self.objects.latest()
        if number is None:
            return 0, Settings()
        return number, msgspec.msgpack.decode(self.objects.read(number), type=Settings)

    def create(self, number: int, settings: Settings) -> bool:
        """Make them the ones that stand; False when the number is taken."""
        try:
            self.objects.create(number, msgspec.msgpack.encode(settings))
        except ObjectExistsError:
            return False
        self.objects.delete_below(number - _KEPT)
        return True
