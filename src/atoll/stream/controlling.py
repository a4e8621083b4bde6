"""The steps of a stream that go by rounds, or by what the plan of a microbatch fixed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from atoll.steps.rows.of_microbatch import MicrobatchId
from atoll.steps.windows import build as windows
from atoll.stream.loops import loop
from atoll.topology.flow import Flow, after
from atoll.topology.usercode import check_function, declared_at, placed

if TYPE_CHECKING:
    from collections.abc import Callable

    from atoll.stream.control import Condition
    from atoll.stream.loops import Left

S = TypeVar("S")


class Controlling(Flow, ABC, Generic[S]):
    """Rows that can go round, or be told when they are; ``S`` is the stream of them."""

    __slots__ = ()

    @abstractmethod
    def _at(self, flow: Flow) -> S:
        """The stream at a point of the graph."""

    def loop(
        self,
        body: Callable[[S], S | tuple[S, S]],
        *,
        until: Condition | None = None,
        at_most: int,
        left: Left = "error",
    ) -> S:
        """Send rows through ``body`` again and again.

        Args:
            body: ``stream -> stream`` with the same columns; called once per round while
                declaring. Without ``until`` it gives two: the rows that go on, and what comes out
                of this round, of any columns; a row may be in both.
            until: Rows of which it holds come out, also before the first round.
            at_most: How many rounds there are.
            left: Whether rows left after the last round are an ``error``, are ``emit``-ted (with
                ``until``) or ``drop``-ped.

        Raises:
            DeclarationError: When the body gives something else.
        """
        place = declared_at(1)
        check_function(body, 1, "loop", place)

        def round_of(flow: Flow) -> Any:
            return body(self._at(flow))

        return self._at(loop(self, round_of, until, at_most, left, place))

    def with_processing_time(self, column: str) -> S:
        """Add when the rows are processed, a timestamp: ``with_processing_time("seen_at")``.

        It is the clock's time when the microbatch was planned, so all rows of a microbatch have
        the same, and so has every attempt at it. It never goes back.
        """
        return self._at(windows.with_processing_time(self, column, declared_at(1)))

    def with_microbatch_id(self, column: str) -> S:
        """Add the id of the microbatch that the rows are of: ``with_microbatch_id("batch")``.

        A bigint, the same in every attempt; ids go up by one from one microbatch to the next.
        """
        place = declared_at(1)
        with placed(place):
            name = windows.time_column(column, "with_microbatch_id")
        step = MicrobatchId((self.operator,), place, name)
        return self._at(after(self.graph, step))
