"""What users wait for in a running module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from atoll.cluster.waiting import Waiting, wait_committed, wait_fresh

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.depot.receipt import Awaited, Receipt
    from atoll.microbatch.stepping import Stepper
    from atoll.views.readable import ReadablePState


class ModuleWaits:
    """The side of an app that waits. Safe from any thread."""

    _waiting: Waiting
    _loops: dict[str, Stepper]

    _depots: dict[str, Depot]
    _pstates: dict[str, ReadablePState]

    if TYPE_CHECKING:

        def depot(self, name: str) -> Depot:
            """A depot of the module."""
            raise NotImplementedError

        def pstate(self, name: str) -> ReadablePState:
            """A PState of the module."""
            raise NotImplementedError

    def wait(
        self, *receipts: Receipt | Awaited | str, timeout_seconds: float = 60.0
    ) -> dict[str, int]:
        """Wait until readers see all that comes of what was appended.

        Every topology of the module that reads the records is waited for, then those that read
        what these appended to other depots of the module, and so on. What others append meanwhile
        is not. A receipt holds in later lives and other processes, and for a depot of another
        module that this one mirrors.

        Args:
            *receipts: What ``append`` returned, or the tokens of it.
            timeout_seconds: How long to wait for all of it. Topologies that append in a circle
                are waited for until nothing more comes of it.

        Returns:
            For each topology that had any of it to read the microbatch that readers see.

        Raises:
            ReceiptError: When a receipt is of another depot or root, or records of it were trimmed
                before they were read.
            TopologyFailedError: When one of the topologies stopped as failed.
            StoppedError: When the module is stopped meanwhile.
            WaitTimeoutError: When it takes longer.
            FencedError: When another process took the module over.
        """
        return self._waiting.wait(receipts, timeout_seconds)

    def wait_idle(self, *, timeout_seconds: float = 60.0) -> None:
        """Wait until no topology has anything to do: no records, rows of others, or timers due.

        A timer, a window or a tick that is due later is not waited for, nor are the records of a
        topology that is paused when it has read all there is.

        Raises:
            TopologyFailedError: When a topology stopped as failed.
            WaitTimeoutError: When it takes longer: records keep coming, or one is paused.
            StoppedError: When the module is stopped meanwhile.
            FencedError: When another process took the module over.
        """
        self._waiting.wait_idle(timeout_seconds)

    def wait_committed(
        self,
        depot: str,
        ends: Mapping[int, int] | None = None,
        *,
        timeout_seconds: float = 60.0,
    ) -> dict[str, int]:
        """Wait until every topology of the module that reads a depot has committed its records.

        Args:
            depot: The depot.
            ends: By depot partition the offset after the last record to wait for, as an append
                tells it; all that is in the depot now when None.
            timeout_seconds: How long to wait for all of them.

        Returns:
            For each topology the microbatch that readers see.

        Raises:
            NotFoundError: When there is no such depot.
            UsageError: When it has no such depot partition.
            TopologyFailedError: When one of them stopped as failed.
            WaitTimeoutError: When it takes longer.
            FencedError: When another process took the module over.
        """
        now = self.depot(depot).end_offsets()
        return wait_committed(self._loops, depot, now, ends, timeout_seconds)

    def wait_fresh(self, pstate: str, *, timeout_seconds: float = 60.0) -> int:
        """Wait until a PState shows all that the depots of its topology hold now.

        Args:
            pstate: The PState.
            timeout_seconds: How long to wait.

        Returns:
            The microbatch that readers see.

        Raises:
            NotFoundError: When there is no PState of that name, or it is private.
            TopologyFailedError: When its topology stopped as failed.
            WaitTimeoutError: When it takes longer.
            FencedError: When another process took the module over.
        """
        return wait_fresh(self._loops[self.pstate(pstate).spec.topology], timeout_seconds)
