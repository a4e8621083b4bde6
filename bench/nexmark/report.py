"""What the runs of a query come to: medians over the rounds, ratios, a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["SIDES", "compared", "table", "wrong_rows"]

SIDES = ("atoll", "peer")
_MEGABYTE = 1_000_000
_HEAD = (
    "query",
    "Atoll, events/s",
    "Structured Streaming, events/s",
    "ratio",
    "microbatch, ms",
    "memory, MB",
    "on disk, MB",
    "how the peer does it",
)


def compared(query: str, rounds: Mapping[str, list[Mapping[str, Any]]], way: str) -> dict[str, Any]:
    """One query's result.

    Args:
        query: Its name.
        rounds: By side, the report of each round; at least one of each that was run.
        way: How the peer's query differs from the published one; empty when it does not.
    """
    result: dict[str, Any] = {"query": query, "way": way}
    for side, reports in rounds.items():
        result[side] = _medians(reports)
    if all(side in result for side in SIDES):
        ours, theirs = (result[side] for side in SIDES)
        result["ratio"] = round(ours["events_per_second"] / theirs["events_per_second"], 2)
        if ours["cpu_us_per_event"] and theirs["cpu_us_per_event"]:
            result["cpu_ratio"] = round(theirs["cpu_us_per_event"] / ours["cpu_us_per_event"], 2)
    return result


def wrong_rows(
    query: str, side: str, reports: Iterable[Mapping[str, Any]], expected: int | None
) -> str | None:
    """What to say when a round ended with another number of rows than there must be."""
    wrong = [report["rows"] for report in reports if report["rows"] != expected]
    if expected is None or not wrong:
        return None
    return f"{query}: {side} ended with {wrong[0]} rows, not with {expected}"


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """The results as Markdown; a pair of figures is Atoll's and the peer's."""
    lines = [_line(_HEAD), _line(["---", *["---:"] * (len(_HEAD) - 2), "---"])]
    lines += [_line(_cells(result)) for result in results]
    return "\n".join(lines)


def _medians(reports: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The medians of the rounds; of space and memory, the most."""
    rates = [report["events"] / report["seconds"] for report in reports]
    used = [
        report["cpu_seconds"] / report["events"] * 1e6
        for report in reports
        if report["cpu_seconds"] is not None
    ]
    memory = max((report["memory_bytes"] for report in reports), key=lambda it: sum(it.values()))
    return {
        "events_per_second": round(statistics.median(rates)),
        "rounds": [round(rate) for rate in rates],
        "median_ms": round(
            statistics.median(each for report in reports for each in report["durations_ms"]), 1
        ),
        "cpu_us_per_event": round(statistics.median(used), 3) if used else None,
        "memory_mb": {name: round(size / _MEGABYTE) for name, size in memory.items()},
        "disk_mb": round(max(report["disk_bytes"] for report in reports) / _MEGABYTE, 1),
        "rows": reports[0]["rows"],
    }


def _cells(result: Mapping[str, Any]) -> list[str]:
    if "failed" in result:
        return [result["query"], *[""] * (len(_HEAD) - 2), f"failed: {result['failed']}"]
    sides = [result.get(side) for side in SIDES]
    rates = [f"{side['events_per_second']:,}" if side else "" for side in sides]
    present = [side for side in sides if side]
    return [
        result["query"],
        *rates,
        f"{result['ratio']:.2f}" if "ratio" in result else "",
        " / ".join(f"{side['median_ms']:,.0f}" for side in present),
        " / ".join(f"{sum(side['memory_mb'].values()):,}" for side in present),
        " / ".join(f"{side['disk_mb']:,.0f}" for side in present),
        result["way"] or "the same",
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
