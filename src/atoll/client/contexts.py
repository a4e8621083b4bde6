"""Services by name, kept in the user's folder of settings: where each is, and whose token it takes.

A token is best kept elsewhere: the name of an environment variable or of a file stands for it. A
file that holds one itself, as any context file, is readable by its user alone, and refused when
others can read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from atoll.access.files import private_folder, read_private, write_private
from atoll.client.wire import Address
from atoll.errors import NotFoundError, UsageError

__all__ = ["Context", "Contexts", "contexts_file"]

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")


class Context(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a service is, and how its token is found.

    Attributes:
        url: Its address.
        token_env: The environment variable that holds the token.
        token_file: The file that holds it.
        token: The token itself.
    """

    url: str
    token_env: str = ""
    token_file: str = ""
    token: str = ""

    @property
    def kept(self) -> str:
        """Where its token is, in words that never show it."""
        if self.token_env:
            return f"environment {self.token_env}"
        if self.token_file:
            return f"file {self.token_file}"
        return "here" if self.token else "none"

    def secret(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """The token; None when the service is asked without one.

        Raises:
            UsageError: When it is not where it should be.
        """
        if self.token_env:
            if not environment.get(self.token_env):
                raise UsageError(
                    f"the environment has no {self.token_env}, which is to hold the token",
                    hint=f"export {self.token_env}=..., or add the context anew",
                )
            return environment[self.token_env].strip()
        if self.token_file:
            return _read_token(Path(self.token_file))
        return self.token or None


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    current: str = ""
    contexts: dict[str, Context] = {}


class Contexts:
    """The contexts of one user.

    Args:
        file: Where they are kept; that of the user when None.

    Raises:
        UsageError: When the file is none of contexts, or others can read it.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = contexts_file() if file is None else file
        self._kept = _Kept()
        data = read_private(self.file)
        if data is not None:
            self._kept = self._read(data)

    @property
    def current(self) -> str:
        """The name of the one in use; empty when none is."""
        return self._kept.current

    @property
    def all(self) -> dict[str, Context]:
        """All of them by name."""
        return dict(sorted(self._kept.contexts.items()))

    def get(self, name: str) -> Context:
        """One by its name.

        Raises:
            NotFoundError: When there is none.
        """
        if name not in self._kept.contexts:
            known = ", ".join(self.all) or "none; atoll context add NAME URL makes one"
            raise NotFoundError(f"there is no context {name!r}", hint=f"there are: {known}")
        return self._kept.contexts[name]

    def add(self, name: str, context: Context) -> None:
        """Keep one, in place of what had the name; the first one is used from then on.

        Raises:
            UsageError: When the name or the address cannot be.
        """
        if not _NAME.match(name):
            raise UsageError(
                f"{name!r} is no name of a context",
                hint="use 1 to 63 letters, digits, -, _ and ., beginning with a letter or digit",
            )
        Address(context.url)
        contexts = {**self._kept.contexts, name: context}
        self._write(_Kept(self._kept.current or name, contexts))

    def use(self, name: str) -> None:
        """Let commands ask this one unless they are told otherwise.

        Raises:
            NotFoundError: When there is none of that name.
        """
        self.get(name)
        self._write(_Kept(name, self._kept.contexts))

    def remove(self, name: str) -> None:
        """Forget one, and the token with it.

        Raises:
            NotFoundError: When there is none of that name.
        """
        self.get(name)
        left = {each: context for each, context in self._kept.contexts.items() if each != name}
        self._write(_Kept("" if self.current == name else self.current, left))

    def _read(self, data: bytes) -> _Kept:
        try:
            return msgspec.json.decode(data, type=_Kept)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{self.file} holds no contexts: {error}", hint="mend it, or move it away"
            ) from None

    def _write(self, kept: _Kept) -> None:
        private_folder(self.file.parent)
        write_private(self.file, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
        self._kept = kept


def contexts_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user's contexts are kept: in ``ATOLL_CONFIG``, or the usual folder of settings."""
    if environment.get("ATOLL_CONFIG"):
        return Path(environment["ATOLL_CONFIG"]) / "contexts.json"
    given = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(given) if given.startswith("/") else Path.home() / ".config"
    return folder / "atoll" / "contexts.json"


def _read_token(file: Path) -> str:
    found = read_private(file)
    if found is None:
        raise UsageError(f"there is no file of a token {file}", hint="put the token alone into it")
    token = found.decode("ascii", "replace").strip()
    if not token:
        raise UsageError("the file of the token is empty", file=str(file), hint="put it there")
    return token
