"""Tells one start of the machine from the next: what was not synced may be lost between them."""

from __future__ import annotations

import contextlib
import functools
import subprocess
from pathlib import Path


@functools.cache
def boot_id() -> str:
    """A text that differs after the machine has been started anew."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        return found.stdout.strip()
    return "unknown"
