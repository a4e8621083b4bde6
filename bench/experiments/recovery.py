"""Recovery time by the size of the state: 10,000 to 10,000,000 keys.

For each size, as ``bench/recovery.py`` does it: the state is loaded into 256 vnodes; a process is
killed with SIGKILL in the middle of a microbatch, and the next one is timed from its start to its
first new commit, beside what Spark alone takes to start; then the local folder is removed, and a
microbatch that touches every vnode is timed, which rebuilds all of them from checkpoints and logs.

    python bench/experiments.py recovery --out build/experiments
    python bench/experiments.py recovery --keys 10000,100000 --restarts 1 --out build/small
"""

from __future__ import annotations

import argparse
from pathlib import Path

import recovery as restarts
from experiments.common import numbers, write_report

KEYS = [10_000, 100_000, 1_000_000, 10_000_000]


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=numbers, default=KEYS)
    parser.add_argument("--restarts", type=int, default=3, help="of each size")
    parser.add_argument("--out", type=Path, default=Path("build/experiments"))
    arguments = parser.parse_args()
    rows = [restarts.measure(keys, arguments.restarts) for keys in arguments.keys]
    write_report(arguments.out, "recovery", {"vnodes": restarts.VNODES, "rows": rows})
