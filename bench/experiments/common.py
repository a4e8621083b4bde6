"""What the experiments share: a process for each side, and a report as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

EXPERIMENTS = ("throughput", "faults", "recovery", "publish")
BENCH = Path(__file__).parents[1]
TIMEOUT_SECONDS = 1_800.0


def numbers(text: str) -> list[int]:
    """``1,2,4`` as numbers."""
    return [int(each) for each in text.split(",")]


def inside(experiment: str, side: str) -> dict[str, Any]:
    """Run a side of an experiment, with the same arguments, in a process of its own.

    Raises:
        SystemExit: When it failed; its last words are above.
    """
    command = [sys.executable, str(BENCH / "experiments.py"), experiment, "--inside", side]
    command += sys.argv[1:]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def report_to(report: dict[str, Any]) -> None:
    """What a side found, to the process that asked for it."""
    print(json.dumps(report))


def write_report(folder: Path, name: str, report: dict[str, Any]) -> None:
    """Keep what was found, with how busy the machine was."""
    folder.mkdir(parents=True, exist_ok=True)
    report = {**report, "load_average": round(os.getloadavg()[0], 2)}
    file = folder / f"{name}.json"
    file.write_text(json.dumps(report, indent=1) + "\n")
    print(file)
