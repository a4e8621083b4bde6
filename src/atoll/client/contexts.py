"""Services by name, kept in the user's folder of settings: where each is, and whose token it takes.

A token is best kept elsewhere: the name of an environment variable or of a file stands for it. A
file that holds one itself, as any context file, is readable by its user alone, and refused when
others can read it.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from atoll.client.wire import Address
from atoll.errors import NotFoundError, UsageError
from atoll.storage.local import storage_errors

__all__ = ["Context", "Contexts", "contexts_file"]

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
_TOKEN_BYTES_MAX = 16_384


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
        with storage_errors(self.file), contextlib.suppress(FileNotFoundError):
            data = self.file.read_bytes()
            if os.name == "posix" and stat.S_IMODE(self.file.stat().st_mode) & 0o077:
                raise UsageError(
                    f"others can read {self.file}, which may hold tokens",
                    hint=f"chmod 600 {self.file}; and have tokens renewed that were in it",
                )
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
        with storage_errors(self.file):
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made, name = tempfile.mkstemp(dir=self.file.parent, prefix=".contexts-")  # 0600
            try:
                with os.fdopen(made, "wb") as file:
                    file.write(msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
                Path(name).replace(self.file)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        self._kept = kept


def contexts_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user's contexts are kept: in ``ATOLL_CONFIG``, or the usual folder of settings."""
    if environment.get("ATOLL_CONFIG"):
        return Path(environment["ATOLL_CONFIG"]) / "contexts.json"
    given = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(given) if given.startswith("/") else Path.home() / ".config"
    return folder / "atoll" / "contexts.json"


def _read_token(file: Path) -> str:
    try:
        with file.expanduser().open("rb") as opened:
            text = opened.read(_TOKEN_BYTES_MAX).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the token cannot be read: {getattr(error, 'strerror', None) or 'no text'}",
            hint="put the token alone into the file",
            file=str(file),
        ) from None
    if not text:
        raise UsageError("the file of the token is empty", file=str(file), hint="put it there")
    return text
