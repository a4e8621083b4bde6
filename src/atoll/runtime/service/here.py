"""What runs in this process of a runtime: its module, and what works beside that."""

from __future__ import annotations

from dataclasses import dataclass

from atoll.errors import AtollError
from atoll.runtime.service.effects.worker import EffectWorker
from atoll.runtime.service.running import RunningRuntime
from atoll.runtime.snapshots.worker import SnapshotWorker


@dataclass
class Here:
    """What runs here of a runtime and beside it, or why it does not."""

    running: RunningRuntime | None = None
    snapshots: SnapshotWorker | None = None
    effects: EffectWorker | None = None
    failure: AtollError | None = None

    def leave(self) -> None:
        """Say that its module is about to be closed, and end what runs beside it."""
        if self.running is not None:
            self.running.left = True
        self.end()

    def end(self) -> None:
        """End what runs beside the module."""
        for each in (self.snapshots, self.effects):
            if each is not None:
                each.close()
