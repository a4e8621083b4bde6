"""The experiments: each with one command, its result as JSON, a plot and a table of the docs.

    python bench/experiments.py throughput
    python bench/experiments.py faults
    python bench/experiments.py recovery
    python bench/experiments.py publish

What each measures is said by ``--help``, and in ``bench/experiments/README.md``.
"""

from __future__ import annotations

import importlib
import sys

from experiments.common import EXPERIMENTS


def main() -> None:
    """Run the one that is named first."""
    if len(sys.argv) < 2 or sys.argv[1] not in EXPERIMENTS:  # noqa: PLR2004 - the name
        raise SystemExit(f"{__doc__}\nname one of {', '.join(EXPERIMENTS)}")
    name = sys.argv.pop(1)
    sys.argv[0] += f" {name}"
    importlib.import_module(f"experiments.{name}").main()


if __name__ == "__main__":
    main()
