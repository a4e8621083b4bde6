"""Each side of a comparison runs in a process of its own, and reports in its last line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def report_of(side: str, command: list[str]) -> dict[str, Any]:
    """Run a Python program to its end; what it reports.

    Raises:
        SystemExit: With what it printed, when it failed.
    """
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stdout}\n{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report
