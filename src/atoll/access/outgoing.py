"""Whose certificates are believed where Atoll itself asks a service."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

from atoll.errors import UsageError

__all__ = ["CA_VARIABLE", "trusted"]

CA_VARIABLE = "ATOLL_CA_FILE"


def trusted(url: str, environment: Mapping[str, str] = os.environ) -> ssl.SSLContext | bool:
    """Whose certificates are believed: the system's, or those that ``ATOLL_CA_FILE`` names.

    Raises:
        UsageError: When there are none in it.
    """
    file = environment.get(CA_VARIABLE, "")
    if not file or not url.startswith("https:"):
        return True
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise UsageError(
            f"{CA_VARIABLE} names no certificates: {error.strerror or error}",
            hint="give it a PEM file of who signed the service's certificate",
            file=file,
        ) from None
