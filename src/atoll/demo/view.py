"""What the demonstration shows: a live screen in a terminal, a line now and then elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from atoll.demo.auctions import UNLISTED

_STEPS = ("prime", "process", "commit", "publish", "tidy")


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything to show at one moment.

    Attributes:
        status: The topology's status.
        state: The PStates shown, by name.
        generated: Events generated so far.
        seconds_left: Until the demonstration ends by itself.
    """

    status: dict[str, Any]
    generated: int
    seconds_left: float
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """Records appended and not yet committed."""
        return sum(sum(lags) for lags in self.status["lag"].values())


def line(picture: Picture) -> str:
    """The moment in one line, for a log."""
    status = picture.status
    return (
        f"microbatch {status['committed']}: {status['processed']:,} records, "
        f"{status['records_per_second']:,.0f}/s, lag {picture.lag:,}, "
        f"{status['durations_ms'].get('total', 0):,.0f} ms"
    )


def screen(picture: Picture) -> RenderableType:
    """The moment as a screen."""
    return Group(
        _head(picture),
        Text(),
        Columns([_steps(picture), _categories(picture)], padding=(0, 4)),
        Text(),
        Columns([_auctions(picture), _bidders(picture)], padding=(0, 4)),
    )


def _head(picture: Picture) -> RenderableType:
    status = picture.status
    title = Text()
    title.append("Atoll", style="bold cyan")
    title.append("  auctions, exactly once, ")
    title.append(f"{max(picture.seconds_left, 0):.0f} s left", style="bold")
    title.append("  (Ctrl-C ends it)", style="dim")
    numbers = Table.grid(padding=(0, 3))
    for heading in ("records/s", "processed", "lag", "microbatch", "version", "state"):
        numbers.add_column(heading, justify="right")
    numbers.add_row(*(Text(name, style="dim") for name in _HEADINGS))
    numbers.add_row(
        Text(f"{status['records_per_second']:,.0f}", style="bold green"),
        f"{status['processed']:,}",
        f"{picture.lag:,}",
        f"{status['committed']:,}",
        str(status["version"]),
        Text(status["state"], style="red" if status["error"] else ""),
    )
    return Group(title, Text(), numbers)


_HEADINGS = ("records/s", "processed", "lag", "microbatch", "version", "state")


def _steps(picture: Picture) -> Table:
    table = _table("step", "ms", title="last microbatch")
    durations = picture.status["durations_ms"]
    for number, step in enumerate(_STEPS, start=1):
        table.add_row(f"{number} {step}", f"{durations.get(step, 0):,.1f}")
    table.add_row("total", f"{durations.get('total', 0):,.1f}", style="bold")
    return table


def _categories(picture: Picture) -> Table:
    table = _table("category", "bids", "sum", title="bids by category")
    for category, row in (picture.state.get("by_category") or {}).items():
        name = "not listed yet" if category == UNLISTED else str(category)
        table.add_row(name, f"{row['bids']:,}", _money(row["total"]))
    return table


def _auctions(picture: Picture) -> Table:
    table = _table("auction", "bids", "highest", title="top auctions by bids")
    for row in picture.state.get("top_auctions") or []:
        table.add_row(str(row["auction"]), f"{row['bids']:,}", _money(row["highest"]))
    return table


def _bidders(picture: Picture) -> Table:
    table = _table("bidder", "bids", "sum", title="top bidders by sum")
    for row in picture.state.get("top_bidders") or []:
        table.add_row(str(row["bidder"]), f"{row['bids']:,}", _money(row["total"]))
    return table


def _table(first: str, *numbers: str, title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(first, header_style="dim")
    for name in numbers:
        table.add_column(name, justify="right", header_style="dim")
    return table


def _money(cents: int) -> str:
    return f"{cents / 100:,.2f}"
