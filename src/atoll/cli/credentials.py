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


def environment_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """The token; None where the environment has none.

    Raises:
        UsageError: When its file cannot be used.
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
    return token or None
