"""Where a password or key is, so that declarations can be stored, shown and sent without it.

``atoll.secret.env("KAFKA_PASSWORD")`` or ``atoll.secret.file("/run/secrets/kafka")`` stand in the
place of the value. The process that connects reads it, each time that it connects: on a cluster
each worker has to have it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from atoll.errors import UsageError

__all__ = ["Secret", "env", "file"]


@dataclass(frozen=True)
class Secret:
    """A reference to a secret; never the secret.

    Attributes:
        kind: ``env``: an environment variable; ``file``: a file, of which the last newline is not
            part of the secret.
        where: The variable's name, or the file's path.
    """

    kind: Literal["env", "file"]
    where: str

    def __repr__(self) -> str:
        """As it was written: ``secret.env('KAFKA_PASSWORD')``."""
        return f"secret.{self.kind}({self.where!r})"

    def read(self) -> str:
        """The secret, as it is here and now.

        Raises:
            UsageError: When there is none.
        """
        if self.kind == "env":
            found = os.environ.get(self.where)
            if found is None:
                raise UsageError(
                    f"the environment variable {self.where} is not set, and should hold a secret",
                    hint="set it for every process that connects: the driver and the workers",
                )
            return found
        try:
            return Path(self.where).read_text(encoding="utf-8").removesuffix("\n")
        except OSError as error:
            raise UsageError(
                f"the file {self.where}, which should hold a secret, cannot be read: "
                f"{error.strerror}",
                hint="put it there on every host that connects: the driver's and the workers'",
            ) from error


def env(name: str) -> Secret:
    """The secret in an environment variable."""
    return Secret("env", name)


def file(path: str | Path) -> Secret:
    """The secret in a file."""
    return Secret("file", str(path))
