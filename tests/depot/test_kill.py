"""``kill -9`` of an appending process at random moments, again and again on one depot."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from depot_samples import all_rows, spec_of

import atoll
from atoll.depot import Depot

_APPENDER = """
import os, sys, threading
from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotSpec, HashBy
from atoll.depot.append import stream as stream_append
stream_append.MEMORY_BYTES_MAX = 8 * 1024
stream_append._CHUNK_BYTES = 4 * 1024
folder, life = sys.argv[1], int(sys.argv[2])
spec = DepotSpec("depot", parse_ddl("k string, v long"), 2, HashBy("k"), segment_bytes_max=65536)
depot = Depot(folder, spec, life)

def append(thread):
    value = (life * 10 + thread) * 1_000_000
    key = f"{life}-{thread}"
    while True:
        # single records, a few, and now and then more than fit in memory
        count = 1500 if value % 97 == 0 else 1 + value % 3
        depot.append([{"k": key, "v": value + n} for n in range(count)])
        os.write(1, f"{value + count}\\n".encode())
        value += count

for thread in range(4):
    threading.Thread(target=append, args=(thread,)).start()
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_kill_at_random_moments(tmp_path: Path, seed: int) -> None:
    """Over several lives, all that was acknowledged is there once and in order, never torn.

    What was not acknowledged may be there, but only whole and behind what was.
    """
    random_ = random.Random(seed)
    acknowledged: dict[int, int] = {}  # life and thread to the value after the last
    for life in range(1, 4):
        kills_after = random_.randrange(1, 300)
        seen = run_and_kill(tmp_path / "depot", life, kills_after)
        assert len(seen) >= kills_after
        for value in seen:
            acknowledged[value // 1_000_000] = value
        check(tmp_path / "depot", life, acknowledged)


def run_and_kill(folder: Path, life: int, kills_after: int) -> list[int]:
    """Run the appender until it has acknowledged so many appends, then kill it."""
    source = Path(atoll.__file__).parent.parent
    process = subprocess.Popen(
        [sys.executable, "-c", _APPENDER, str(folder), str(life)],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    seen = []
    with process.stdout as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            seen.append(int(line))
            if len(seen) == kills_after:
                process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=30) == -signal.SIGKILL
    return seen


def check(folder: Path, life: int, acknowledged: dict[int, int]) -> None:
    """Open as the next life does, and compare with what was acknowledged."""
    with Depot(folder, spec_of(segment_bytes_max=65536), life) as depot:
        rows = [row for part in all_rows(depot) for row in part]
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row["v"] // 1_000_000, []).append(row["v"])
    for source, values in found.items():
        first = source * 1_000_000
        assert values == list(range(first, first + len(values)))
        after_last = acknowledged.get(source, first)
        extra = first + len(values) - after_last
        # at most the one append that was under way, whole
        under_way = 1500 if after_last % 97 == 0 else 1 + after_last % 3
        assert extra in (0, under_way)
    assert set(acknowledged) <= set(found)
