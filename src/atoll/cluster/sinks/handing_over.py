"""What a module hands over and takes when it is told to: where nothing moves by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atoll.cluster.sinks.running import RunningSinks
    from atoll.microbatch.parcels.taking import ParcelTaker


class HandingOver:
    """Rows that come from other modules, and rows that leave for sinks."""

    sinks: RunningSinks
    """What brings rows to the sinks of its topologies."""
    _parcels: ParcelTaker

    def take_parcels(self) -> int:
        """Take what other modules' topologies have appended to depots of this one, now.

        It happens by itself where the module runs by itself, many times a second.

        Returns:
            How many commits' rows were taken.

        Raises:
            FencedError: When another process took the module over.
        """
        return self._parcels.take()

    def write_sinks(self) -> int:
        """Write all that waits for sinks, now.

        It happens by itself where the module runs by itself, as soon as a microbatch committed.

        Returns:
            How many microbatches' rows were written, over all sinks.

        Raises:
            FencedError: When another process took the module over.
            Exception: What the first failing sink raised, after the others were written.
        """
        return self.sinks.write()
