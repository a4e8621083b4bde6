"""Queries, options and the cluster of a module on a service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from atoll.client.asking.module import ModuleCalls, member, value_of_option
from atoll.client.asking.moved import Moved
from atoll.client.wire import Wire
from atoll.errors import UsageError
from atoll.placement.reschedule.change import UnitChange

__all__ = ["RemoteCluster", "RemoteOptions", "RemoteQueries"]


class RemoteQueries:
    """The queries of a module, to list and to ask by name."""

    def __init__(self, wire: Wire, calls: ModuleCalls) -> None:
        self._wire = wire
        self._calls = calls

    def names(self) -> list[str]:
        """The names of the queries."""
        found: list[str] = self._wire.run(self._calls.get("queries", read=member("queries")))
        return found

    def describe(self, name: str) -> dict[str, Any]:
        """What a query takes and what it returns, as plain data."""
        found: dict[str, Any] = self._wire.run(self._calls.get("queries", name))
        return found

    def ask(self, name: str, arguments: Mapping[str, Any], timeout_seconds: float = 10.0) -> Any:
        """The answer to a query; raises as ``app.queries.ask`` does."""
        return self._wire.run(self._calls.ask(name, arguments, timeout_seconds))


class RemoteOptions:
    """The options of a module, as ``app.options``."""

    def __init__(self, wire: Wire, calls: ModuleCalls) -> None:
        self._wire = wire
        self._calls = calls

    def set(self, option: str, value: int, **where: str | None) -> None:
        """Set an option for the module, or for a ``topology``, ``depot`` or ``pstate``."""
        if value is None:
            raise UsageError(f"option {option!r} needs a value", hint="unset(...) takes it back")
        self._wire.run(self._calls.set_option(option, value, where))

    def unset(self, option: str, **where: str | None) -> None:
        """Take back what :meth:`set` set there."""
        self._wire.run(self._calls.set_option(option, None, where))

    def get(
        self,
        option: str,
        *,
        topology: str | None = None,
        depot: str | None = None,
        pstate: str | None = None,
    ) -> int:
        """The value that stands for a topology, or for a depot or PState of it."""
        return value_of_option(self.describe(), option, topology, depot, pstate)

    def describe(self) -> dict[str, Any]:
        """What is set by level, what is declared, and what stands for each topology."""
        found: dict[str, Any] = self._wire.run(self._calls.get("options"))
        return found


class RemoteCluster:
    """The cluster of a module, as ``app.cluster``."""

    def __init__(self, wire: Wire, calls: ModuleCalls) -> None:
        self._wire = wire
        self._calls = calls

    def describe(self) -> dict[str, Any]:
        """Workers, fragments with their actors, and the fragment-by-unit matrix."""
        found: dict[str, Any] = self._wire.run(self._calls.get("cluster"))
        return found

    def reschedule(
        self,
        changes: Mapping[int, UnitChange],
        *,
        revision: int,
        resolve: bool = False,
        dry_run: bool = False,
        timeout_seconds: float = 60.0,
    ) -> Moved:
        """Change which units run some fragments: all of the changes, or none."""
        asked = {"revision": revision, "resolve": resolve, "dry_run": dry_run}
        return self._wire.run(self._calls.reschedule(changes, asked, timeout_seconds))

    def set_parallelism(
        self, topology: str, policy: str, *, dry_run: bool = False, timeout_seconds: float = 60.0
    ) -> Moved:
        """Let a policy decide a topology's parallelism: ``adaptive``, ``4``, ``bounded(4)``..."""
        return self._wire.run(
            self._calls.set_parallelism(topology, policy, dry_run=dry_run, seconds=timeout_seconds)
        )

    def cordon(self, workers: Iterable[int]) -> dict[str, Any]:
        """Give these workers no new actors; the cluster then."""
        return self._wire.run(self._calls.of_workers("cordon", workers))

    def uncordon(self, workers: Iterable[int]) -> dict[str, Any]:
        """Let these workers get new actors again; the cluster then."""
        return self._wire.run(self._calls.of_workers("uncordon", workers))

    def remove(self, workers: Iterable[int]) -> dict[str, Any]:
        """Forget workers that run nothing; the cluster then."""
        return self._wire.run(self._calls.of_workers("remove", workers))
