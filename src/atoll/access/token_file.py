"""The tokens of a service in a file, which may change while the service runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from atoll.access.files import access_folder, locked, read_private, write_private
from atoll.access.tokens import Token, checked_tokens
from atoll.errors import StorageError, UsageError
from atoll.storage.places import Place

__all__ = ["LiveTokens", "TokenFile"]

_VERSION = 1
_Result = TypeVar("_Result")


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """The file."""

    version: int
    tokens: list[Token]


class TokenFile:
    """Tokens in a file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, root: Place) -> TokenFile:
        """That of a root."""
        return cls(access_folder(root) / "tokens.json")

    def read(self) -> tuple[Token, ...] | None:
        """The tokens; None when there is no file.

        Raises:
            UsageError: When it is no file of tokens, or others may read it.
        """
        data = read_private(self.path)
        if data is None:
            return None
        try:
            kept = msgspec.json.decode(data, type=_Kept)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{self.path.name} holds no tokens: {error}",
                hint="move it away, and make the tokens again: atoll token create NAME --role ROLE",
                file=str(self.path),
            ) from None
        if kept.version != _VERSION:
            raise UsageError(
                f"{self.path.name} was written by another version of Atoll: {kept.version}",
                hint="read it with that version",
                file=str(self.path),
            )
        return checked_tokens(kept.tokens)

    def change(
        self, change: Callable[[tuple[Token, ...]], tuple[tuple[Token, ...], _Result]]
    ) -> _Result:
        """Put changed tokens in the place of those that are there; what the change tells."""
        with locked(self.path):
            tokens, told = change(self.read() or ())
            data = msgspec.json.format(msgspec.json.encode(_Kept(_VERSION, list(tokens))), indent=1)
            write_private(self.path, data)
        return told


class LiveTokens:
    """What stands in the file now. Looked up for every request, read when it has changed.

    Where there were tokens once there must be some for ever: a file that goes away while the
    service runs lets nobody in, instead of everybody.

    Args:
        file: The file.
        required: Whether it must be there.
    """

    def __init__(self, file: TokenFile, *, required: bool = False) -> None:
        """Read it.

        Raises:
            UsageError: When it must be there and is not, or cannot be used.
        """
        self._file = file
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._tokens: tuple[Token, ...] | None = None
        if self.present() is None and required:
            raise UsageError(
                f"there is no file of tokens {file.path}",
                hint=f"make one: atoll token create NAME --role admin --tokens {file.path}",
            )

    def present(self) -> tuple[Token, ...] | None:
        """The tokens; None as long as there has never been a file of them.

        Raises:
            StorageError: When the file has gone, or cannot be used any more.
        """
        seen = self._state()
        if seen == self._seen:
            return self._tokens
        with self._lock:
            if seen is None:
                raise StorageError(
                    "the file of tokens has gone", hint="put it back", file=self._file.path.name
                )
            first = self._tokens is None
            try:
                tokens = self._file.read()
            except UsageError as error:
                if first and self._seen is None:
                    raise
                raise StorageError(error.message, hint=error.hint) from None
            self._tokens, self._seen = tokens, seen
        return self._tokens

    def _state(self) -> tuple[int, ...] | None:
        """What tells one state of the file from another; None when there is no file."""
        try:
            found = os.stat(self._file.path)  # noqa: PTH116  # for every request
        except FileNotFoundError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode, found.st_ctime_ns)
