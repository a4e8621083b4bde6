"""What the step that calls a function does with everything that it gave the function."""

from __future__ import annotations

from atoll.pstate.handles.writes import Writes


class Driven:
    """Writes of one vnode, as the step drives them beside the function's own use of them."""

    __slots__ = ("_writes",)

    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    def flush(self) -> None:
        """Hand what was written to the writer."""
        self._writes.flush()

    def waiting(self) -> int:
        """How many entries were written and not handed to the writer."""
        return len(self._writes.unflushed)

    def savepoint(self) -> None:
        """Let :meth:`roll_back` take back what is written to this PState from now on."""
        self._writes.savepoint()

    def roll_back(self) -> None:
        """Take back what was written to this PState since the savepoint."""
        self._writes.roll_back()

    def end_call(self) -> None:
        """The function's call is done: write what it changed in place.

        Raises:
            StateError: When that does not fit, or what it changed stands for no value any more.
        """
        self._writes.live.end_call()

    def close(self) -> None:
        """The vnode's rows are done: flush, and refuse to be used again.

        Raises:
            StateError: When a value of an earlier call was changed by a later one.
        """
        self._writes.close()
