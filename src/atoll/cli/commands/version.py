"""``atoll version``."""

from __future__ import annotations

import sys

import atoll

__all__ = ["version"]


def version() -> None:
    """Print the version."""
    sys.stdout.write(f"atoll {atoll.__version__}\n")
