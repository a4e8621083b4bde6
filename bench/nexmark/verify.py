"""Compares every query with DuckDB over generated records; a line each, and who was wrong.

    python -m nexmark.verify --events 100000 --seeds 1,2,3 --queries q5,q7
    python -m nexmark.verify --events 100000 --queries outer,anti,interval

Each seed is another stream, and its events lie differently in time: windows of seconds, hours of
a day and days all have borders that rows lie on either side of.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from atoll.demo.nexmark import NexmarkSettings
from nexmark import queries
from nexmark.checking import differences, expected, run
from nexmark.feeds import generated

__all__ = ["check", "main", "settings"]

_RATES = (1_000, 100, 1)
"""Events per second of event time, seed by seed."""

_LATE_SECONDS = 30
"""Less than the queries' watermarks wait, so no row is late: SQL knows no such rows."""


def settings(seed: int) -> NexmarkSettings:
    """The stream of a seed."""
    rate = _RATES[seed % len(_RATES)]
    group = min(NexmarkSettings().out_of_order_group, _LATE_SECONDS * rate)
    return NexmarkSettings(
        seed=seed, events_per_second=rate, active_people=200, out_of_order_group=group
    )


def check(name: str, events: int, seed: int, pieces: int) -> list[str]:
    """How a query's result differs from the reference; empty when it does not."""
    feed = generated(settings(seed), events, pieces, random.Random(seed))
    found, records = run(name, feed, seed)
    return differences(found, expected(name, records))


def main(arguments: list[str] | None = None) -> int:
    """Check the queries; 1 when one of them is wrong."""
    parser = argparse.ArgumentParser(prog="nexmark.verify", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="of each stream")
    parser.add_argument("--seeds", default="1,2,3", help="one stream each")
    parser.add_argument("--queries", default=",".join(queries.NAMES), help="which queries")
    parser.add_argument("--pieces", type=int, default=12, help="of the stream, appended in turn")
    asked = parser.parse_args(arguments)
    wrong = 0
    for name in asked.queries.split(","):
        for seed in map(int, asked.seeds.split(",")):
            begun = time.monotonic()
            found = check(name, asked.events, seed, asked.pieces)
            took = f"{time.monotonic() - begun:.1f} s"
            print(f"{name} seed {seed}: {'; '.join(found) if found else 'equal'} ({took})")
            sys.stdout.flush()
            wrong += bool(found)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
