"""The bank of ``spark_scenario``, for ``atoll run`` on a cluster; a transfer can be held inside.

A file ``gate`` in the folder of marks is taken by the first transfer that meets it: its task
writes down on which worker it runs, then it waits until the file ``open`` is there.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import spark_scenario

MARKS = Path(os.environ["ATOLL_TEST_MARKS"])
WAIT_SECONDS_MAX = 120.0


def held(_row):
    """Wait at the gate, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        (MARKS / "gate").rename(MARKS / "taken")
        (MARKS / "taken").write_text(os.environ["ATOLL_LOCAL"])
        (MARKS / "taken").rename(MARKS / "held")
        ends_at = time.monotonic() + WAIT_SECONDS_MAX
        while not (MARKS / "open").exists() and time.monotonic() < ends_at:
            time.sleep(0.01)


module = spark_scenario.build(
    held,
    topology__microbatch__retry__max__attempts=1_000,
    depot__microbatch__max__records=200,
)
