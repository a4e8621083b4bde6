"""The demonstration: deploy, feed, show, check, and say how to go on."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from atoll.demo.feeder import Feeder
from atoll.demo.nexmark import Nexmark, NexmarkSettings
from atoll.demo.view import Picture, line, screen

_PICTURES_PER_SECOND = 4
_LINE_EVERY_SECONDS = 5.0
_CATCH_UP_SECONDS_MAX = 120.0

_WARM_UP_EVENTS = 500
"""The first microbatch compiles code and starts processes; the clock starts after it."""

_TOPOLOGY = "totals"
_SHOWN = ("by_category", "top_auctions", "top_bidders")
_CHECKED = ("people_by_state", "bids_by_auction", "bids_by_bidder", *_SHOWN)

_GO_ON = """\
To go on, with .venv/bin on the PATH or in front:
  atoll run atoll.demo.auctions:module        this module to stay, kept in ./.atoll
  atoll append auctions bids '{"auction": 1, "bidder": 2, "price": 300}'
  atoll query auctions bids_by_auction        what it knows; also: atoll status
  atoll demo --rate 0 --seconds 30            as many events as this machine takes"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """How the demonstration runs.

    Attributes:
        seconds: For how long events come.
        rate: Events per second; 0 for as many as go.
        seed: Which stream.
        parallelism: How many cores Spark uses.
    """

    seconds: float = 60.0
    rate: int = 20_000
    seed: int = 1
    parallelism: int = 2


def run_demo(
    settings: DemoSettings, stop: threading.Event, on_started: Callable[[], None] | None = None
) -> bool:
    """Run it to the end of its time, or until ``stop`` is set.

    Args:
        settings: How it runs.
        stop: Ends it early, in order.
        on_started: Called once Spark runs.

    Returns:
        Whether the state held exactly what was generated.
    """
    from atoll.cluster.local import LocalCluster
    from atoll.demo.auctions import module

    console = Console(stderr=True)
    console.print("Starting Spark (ten seconds or so) ...")
    with (
        tempfile.TemporaryDirectory(prefix="atoll-demo-") as folder,
        LocalCluster(Path(folder), parallelism=settings.parallelism) as cluster,
    ):
        app = cluster.deploy(module)
        if on_started is not None:
            on_started()
        topology = app.topology(_TOPOLOGY)
        stream = Nexmark(NexmarkSettings(seed=settings.seed))
        feeder = Feeder(app, stream, settings.rate, lambda: _lag(topology.status()))
        feeder.append(_WARM_UP_EVENTS)
        topology.wait_processed(_WARM_UP_EVENTS, timeout_seconds=_CATCH_UP_SECONDS_MAX)
        started_at = time.monotonic()
        feeder.start()
        try:
            _show(console, app, feeder, stop, started_at + settings.seconds)
        finally:
            feeder.stop()
        console.print("Waiting until everything generated is processed ...")
        topology.wait_processed(feeder.recount.events, timeout_seconds=_CATCH_UP_SECONDS_MAX)
        seconds = time.monotonic() - started_at
        return _check(console, app, feeder, seconds)


def _show(
    console: Console, app: Any, feeder: Feeder, stop: threading.Event, ends_at: float
) -> None:
    """Draw until the time is over, someone stops it, or feeding fails."""
    with _drawing(console) as draw:
        while time.monotonic() < ends_at and feeder.error is None:
            draw(
                Picture(
                    status=app.topology(_TOPOLOGY).status(),
                    generated=feeder.recount.events,
                    seconds_left=ends_at - time.monotonic(),
                    state={name: app.pstate(name).get() for name in _SHOWN},
                )
            )
            if stop.wait(1 / _PICTURES_PER_SECOND):
                return


@contextmanager
def _drawing(console: Console) -> Iterator[Callable[[Picture], None]]:
    """How to draw: over the last picture in a terminal, a line every few seconds elsewhere."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda picture: live.update(screen(picture), refresh=True)
        return
    drawn_at = 0.0

    def draw(picture: Picture) -> None:
        nonlocal drawn_at
        if time.monotonic() - drawn_at >= _LINE_EVERY_SECONDS:
            drawn_at = time.monotonic()
            console.print(line(picture), highlight=False, soft_wrap=True)

    yield draw


def _check(console: Console, app: Any, feeder: Feeder, seconds: float) -> bool:
    """Hold the whole state against the recount, and say what came out."""
    recount = feeder.recount
    state = {name: app.pstate(name).get() for name in _CHECKED}
    wrong = recount.differences(state)
    status = app.topology(_TOPOLOGY).status()
    console.print(
        f"{recount.events:,} events in {seconds:.0f} s, {status['committed']:,} microbatches, "
        f"{recount.bids:,} bids on {len(state['bids_by_auction']):,} auctions",
        highlight=False,
        soft_wrap=True,
    )
    for difference in wrong:
        console.print(
            f"WRONG: {difference}", style="red", markup=False, highlight=False, soft_wrap=True
        )
    if not wrong:
        console.print(
            "check: every auction, bidder, state and total equals an independent recount",
            style="green",
            soft_wrap=True,
        )
    console.print(_GO_ON, markup=False, highlight=False, soft_wrap=True)
    return not wrong


def _lag(status: dict[str, Any]) -> int:
    return sum(sum(lags) for lags in status["lag"].values())
