"""Takes the parcels of other modules into the depots of this one, each exactly once, in order.

A depot stores a parcel as the append of a producer that has the parcel's number; so taking it may
break off anywhere, and be repeated by any life of any process that runs the module.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atoll.depot.producers.table import Producer
from atoll.errors import AtollError, DamageError, FencedError
from atoll.logs import get_logger
from atoll.microbatch.parcels.box import ParcelBox, boxes_for
from atoll.microbatch.parcels.rows import Present, rows_of
from atoll.storage.glances import look_seconds

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.storage.roots import RootStore

_LOOK_SECONDS = 0.05
"""Between two looks for what another module has sent."""
_FIRST_LOOK_SECONDS = 0.5
"""The same while none has ever sent anything."""

_log = get_logger("atoll.cluster")


class ParcelTaker:
    """Looks for parcels, and takes them.

    Args:
        store: The root.
        module: The module that they are for.
        depots: Its depots, by name, open.
    """

    def __init__(self, store: RootStore, module: str, depots: Mapping[str, Depot]) -> None:
        """Nothing is taken before :meth:`start`, or :meth:`take`."""
        self._store = store
        self._module = module
        self._depots = depots
        self._boxes: dict[tuple[str, tuple[str, str]], ParcelBox] = {}
        self._dropped: dict[tuple[str, tuple[str, str]], int] = {}
        self._errors: dict[tuple[str, tuple[str, str]], AtollError] = {}
        self._taking = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="atoll-parcels", daemon=True)

    def start(self) -> None:
        """Begin; call once."""
        self._thread.start()

    def close(self) -> None:
        """Take no more; returns when none is being taken."""
        self._stopping.set()
        with self._taking:
            pass

    def take(self) -> int:
        """Take all that is there now; returns how many parcels.

        One that cannot be taken holds up those of its own topology alone: :meth:`status` says why.

        Raises:
            FencedError: When another process owns the depots.
        """
        taken = 0
        with self._taking:
            for name, depot in self._depots.items():
                for found in boxes_for(self._store, self._module, name):
                    key = (name, found.sender)
                    box = self._boxes.setdefault(key, found)
                    try:
                        if self._stopping.is_set():
                            return taken
                        taken += self._take(key, box, depot)
                        if self._errors.pop(key, None) is not None:
                            _log.warning("parcels are taken again", **_place(key))
                    except FencedError:
                        raise
                    except AtollError as error:
                        self._note(key, error)
        return taken

    def status(self, depot: str) -> list[dict[str, Any]]:
        """By sender what waits for a depot, and why it is not taken."""
        told = []
        for box in boxes_for(self._store, self._module, depot):
            waiting, error = box.waiting(), self._errors.get((depot, box.sender))
            told.append(
                {
                    "module": box.sender[0],
                    "topology": box.sender[1],
                    "waiting_parcels": waiting.parcels,
                    "waiting_records": waiting.records,
                    "error": None if error is None else str(error),
                }
            )
        return told

    def _take(self, key: tuple[str, tuple[str, str]], box: ParcelBox, depot: Depot) -> int:
        last = depot.last_sequence(box.producer_id) or 0
        count = 0
        for number in box.objects.numbers(last + 1):
            if number != last + 1:
                raise DamageError(
                    f"parcel {last + 1} for depot {depot.spec.name!r} is missing, and later ones "
                    "wait behind it",
                    hint="restore it from a copy, or restore depot and parcels from one moment",
                    file=box.objects.name(last + 1),
                )
            rows = Present(rows_of(self._store, box.read(number).files), depot)
            depot.append_stream(rows, producer=Producer(box.producer_id, sequence=number))
            last, count = number, count + 1
        # a life of the sender that slept meanwhile may have brought rows back
        if last and (self._dropped.get(key) != last or box.has_rows(last)):
            box.drop(last)
            self._dropped[key] = last
        return count

    def _note(self, key: tuple[str, tuple[str, str]], error: AtollError) -> None:
        before = self._errors.get(key)
        self._errors[key] = error
        if before is None or before.message != error.message:
            _log.error("a parcel cannot be taken", error=str(error), **_place(key))

    def _look_seconds(self) -> float:
        return look_seconds(self._store, _LOOK_SECONDS if self._boxes else _FIRST_LOOK_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(self._look_seconds()):
            try:
                self.take()
            except FencedError:
                return
            except Exception as error:  # noqa: BLE001 - the next look tries again
                _log.warning("looking for parcels failed", error=str(error))


def _place(key: tuple[str, tuple[str, str]]) -> dict[str, str]:
    depot, (module, topology) = key
    return {"depot": depot, "from_module": module, "from_topology": topology}
