"""The steps of a stream that go by time; :class:`~atoll.stream.stream.Stream` has them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from atoll.topology.usercode import declared_at

if TYPE_CHECKING:
    import datetime as dt

    from atoll.steps.windows.builders import Windowed
    from atoll.stream.stream import Stream

    Duration = str | dt.timedelta

__all__ = ["Timed"]


class Timed:
    """Watermarks and windows of event time."""

    __slots__ = ()

    def with_watermark(self, column: str, delay: Duration, *, name: str | None = None) -> Stream:
        """Say how late rows may come: ``with_watermark("at", "10 seconds")``.

        The watermark is the highest event time of all rows so far less the delay. It never
        falls, and the rows of a microbatch move that of the next one.

        Args:
            column: The event time: a timestamp, or a bigint of milliseconds since 1970.
            delay: ``"10 seconds"``, ``"1 hour 30 minutes"``, or a timedelta.
            name: What to call it, where two watermarks would not be told apart.
        """
        from atoll.steps.windows import builders as windows

        return windows.with_watermark(_stream(self), column, delay, name, declared_at(1))

    def with_processing_time(self, column: str) -> Stream:
        """Add when the rows are processed, a timestamp: ``with_processing_time("seen_at")``.

        It is the clock's time when the microbatch was planned, so all rows of a microbatch have
        the same, and so has every attempt at it. It never goes back.
        """
        from atoll.steps.windows import builders as windows

        return windows.with_processing_time(_stream(self), column, declared_at(1))

    @overload
    def window(
        self,
        column: str,
        duration: Duration,
        slide: Duration | None = None,
        *,
        start: Duration = "0 seconds",
        allowed_lateness: Duration | None = None,
        split_late: Literal[False] = False,
        name: str | None = None,
    ) -> Windowed: ...
    @overload
    def window(
        self,
        column: str,
        duration: Duration,
        slide: Duration | None = None,
        *,
        start: Duration = "0 seconds",
        allowed_lateness: Duration | None = None,
        split_late: Literal[True],
        name: str | None = None,
    ) -> tuple[Windowed, Stream]: ...
    def window(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        column: str,
        duration: Duration,
        slide: Duration | None = None,
        *,
        start: Duration = "0 seconds",
        allowed_lateness: Duration | None = None,
        split_late: bool = False,
        name: str | None = None,
    ) -> Windowed | tuple[Windowed, Stream]:
        """A row per window of event time that each row lies in: ``window("at", "10 minutes")``.

        Adds ``window_start`` and ``window_end`` (not included). Behind a watermark only open
        windows count; rows that lie in none are dropped and counted, or come as a stream.

        Args:
            column: The event time.
            duration: How long a window is.
            slide: How far apart windows begin; as long as they are when None.
            start: How long after midnight of 1970-01-01 (UTC) a window begins.
            allowed_lateness: How long a window stays open after the watermark has passed its end.
            split_late: Whether ``(windowed, late)`` comes back instead of ``windowed`` alone.
            name: What to call what is kept of them, where it would not be told apart.
        """
        from atoll.steps.windows import builders as windows

        place = declared_at(1)
        made = windows.window(
            _stream(self), column, duration, slide, start, allowed_lateness, name, place
        )
        return made if split_late else windows.dropping(*made)

    def session_window(
        self,
        column: str,
        gap: Duration,
        *,
        allowed_lateness: Duration | None = None,
        split_late: bool = False,
        name: str | None = None,
    ) -> Any:
        """Windows that last until no row has come for ``gap``: see ``aggregate_windows``.

        Gives :class:`~atoll.steps.windows.builders.Sessions`, and with ``split_late`` beside them
        the stream of the rows that come too late for any session. ``name`` is as for
        :meth:`window`.
        """
        from atoll.steps.windows import builders as windows

        place = declared_at(1)
        made = windows.session_window(_stream(self), column, gap, allowed_lateness, name, place)
        return made if split_late else windows.dropping(*made)


def _stream(timed: Timed) -> Stream:
    from atoll.stream.stream import Stream

    assert isinstance(timed, Stream)
    return timed
