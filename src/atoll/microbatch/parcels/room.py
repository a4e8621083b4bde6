"""What a topology has for other modules and for sinks and is not taken yet, and how much may be."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from atoll.errors import BacklogError
from atoll.microbatch.parcels.box import ParcelBox
from atoll.names import mirrored_name

if TYPE_CHECKING:
    from atoll.microbatch.parcels.sink_box import SinkBox
    from atoll.storage.roots import RootStore


class ParcelRoom:
    """The backlog of one topology.

    Args:
        store: The root.
        sender: Its module and name.
        targets: The depots that it appends to; those of other modules are ``module.depot``.
        sinks: What its sinks are to get, by name.
    """

    def __init__(
        self,
        store: RootStore,
        sender: tuple[str, str],
        targets: Iterable[str],
        sinks: Mapping[str, SinkBox] = MappingProxyType({}),
    ) -> None:
        found = {name: mirrored_name(name) for name in targets}
        self._boxes = {
            name: ParcelBox(store, *owner, sender) for name, owner in found.items() if owner
        }
        self._sinks = sinks
        self._lock = threading.Lock()

    def check(self, records_max: int, sink_records_max: int) -> None:
        """Nothing, while less waits than may.

        Raises:
            BacklogError: When so many rows wait for a depot that no more are made.
        """
        for name, box in self._boxes.items():
            with self._lock:
                waiting = box.waiting()
            if waiting.records >= records_max:
                raise BacklogError(
                    f"{waiting.records} rows wait for depot {box.depot!r} of module "
                    f"{box.module!r}, which does not take them",
                    hint=f"let module {box.module!r} run, and look at the status of its depot; it "
                    "goes on by itself when they are taken; the option "
                    "topology.parcels.max.records says how many may wait",
                    depot=name,
                    parcels=waiting.parcels,
                    records=waiting.records,
                )

        for name, waits in self._sinks.items():
            found = waits.waiting()
            if found.records >= sink_records_max:
                raise BacklogError(
                    f"{found.records} rows wait for sink {name!r}, which does not take them",
                    hint="look at the sink in the topology's status; it goes on by itself when "
                    "they are written; the option topology.sinks.max.records says how many may "
                    "wait",
                    sink=name,
                    parcels=found.parcels,
                    records=found.records,
                )

    def status(self) -> dict[str, dict[str, Any]]:
        """By depot of another module what waits."""
        with self._lock:
            found = {name: box.waiting() for name, box in self._boxes.items()}
        return {
            name: {
                "waiting_parcels": each.parcels,
                "waiting_records": each.records,
                "oldest_ms": each.oldest_ms,
            }
            for name, each in found.items()
        }
