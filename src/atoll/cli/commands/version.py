"""``atoll version``."""

from __future__ import annotations

import sys

import atoll


def version() -> None:
    """Print the version."""
    sys.stdout.write(f"atoll {atoll.__version__}\n")
