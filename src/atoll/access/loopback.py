"""Which addresses are this machine's own, so that what is sent there crosses no network."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a name is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
