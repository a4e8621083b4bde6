"""The token that commands send: from the environment or a file, never from the command line.

What stands on a command line is seen by everybody on the machine, and kept in a shell's history.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from atoll.access.files import read_private
from atoll.client.tokens import token_header
from atoll.errors import UsageError

TOKEN_VARIABLE = "ATOLL_TOKEN"  # noqa: S105 - the name of a variable
FILE_VARIABLE = "ATOLL_TOKEN_FILE"


def token_of(environment: Mapping[str, str] = os.environ) -> str | None:
    """The token of the environment; None where it has none.

    Raises:
        UsageError: When its file cannot be used, or holds none.
    """
    token = environment.get(TOKEN_VARIABLE, "").strip()
    file = environment.get(FILE_VARIABLE, "")
    if not token and file:
        found = read_private(Path(file))
        if found is None:
            raise UsageError(
                f"there is no file of a token {file}", hint=f"set {FILE_VARIABLE} to one"
            )
        token = found.decode("ascii", "replace").strip()
    if not (token.isascii() and token.isprintable()):
        raise UsageError(
            f"what {TOKEN_VARIABLE if TOKEN_VARIABLE in environment else file} holds is no token",
            hint="set it to what atoll token create printed",
        )
    return token or None


def token_headers(url: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The header that says who calls; none where the environment has no token.

    Raises:
        UsageError: When the token would cross a network readable by everybody on the way, or its
            file cannot be used.
    """
    return token_header(url, token_of(environment))
