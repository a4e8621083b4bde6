"""Where files lie: a folder of this machine or a bucket; what there is, and what is in it."""

from __future__ import annotations

import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, cast

from atoll.errors import DeclarationError
from atoll.sources.base import NoLongerThereError, SourceError, without_package

_WILD = re.compile(r"[*?\[]")
_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", "~")
_MEMORY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Found:
    """A file that is there.

    Attributes:
        name: Below the folder, with ``/``.
        size: Its bytes.
        stamp: What changes when its content does: modification time or entity tag.
        at_ns: When it was last written, nanoseconds since 1970.
    """

    name: str
    size: int
    stamp: str
    at_ns: int


class Place(ABC):
    """A folder of files, and which of them are meant."""

    base: str
    """The folder, as users know it."""
    pattern: str
    """Which names below it are meant."""
    atomic: ClassVar[bool]
    """Whether a file is there whole or not at all."""

    @abstractmethod
    def found(self) -> Iterator[Found]:
        """The files that are meant, in no order.

        Raises:
            SourceError: When the folder is not there or does not answer.
        """

    @abstractmethod
    def opened(self, name: str, size: int, stamp: str) -> Any:
        """A context with the content of a file, from its beginning.

        Raises:
            NoLongerThereError: When it is gone, or another than it was; also at the context's end.
            SourceError: When it does not answer.
        """


def place_of(path: str | os.PathLike[str], options: Mapping[str, str]) -> Place:
    """The place that a pattern means: ``in/*.jsonl``, ``s3://bucket/in/**/*.parquet``.

    Raises:
        DeclarationError: When it has no wild card.
    """
    text = os.fspath(path)
    scheme, mark, rest = text.partition("://")
    if mark and scheme == "file":
        scheme, mark, text = "", "", rest
    if not mark:
        text = os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111  # a pattern is no path yet
    folder, pattern = _divided(text)
    return Bucket(folder, pattern, options) if mark else Folder(Path(folder), pattern)


class Folder(Place):
    """A folder of this machine's file system."""

    atomic = False

    def __init__(self, folder: Path, pattern: str) -> None:
        self.base = str(folder)
        self._folder = folder
        self.pattern = pattern
        self._meant = _matcher(pattern)

    def found(self) -> Iterator[Found]:
        """As the place's."""
        if not self._folder.is_dir():
            raise SourceError(
                "there is no such folder",
                hint="make it, or correct the path of the source",
                problem="unreachable",
                place=self.base,
            )
        for path in self._folder.glob(self.pattern):
            name = path.relative_to(self._folder).as_posix()
            if not _meant(name, self._meant):
                continue
            try:
                about = path.stat()
            except FileNotFoundError:
                continue  # gone since it was listed
            if path.is_file():
                yield Found(name, about.st_size, str(about.st_mtime_ns), about.st_mtime_ns)

    @contextmanager
    def opened(self, name: str, size: int, stamp: str) -> Iterator[IO[bytes]]:
        """As the place's."""
        path = self._folder / name
        try:
            with path.open("rb") as raw:
                _hold(os.fstat(raw.fileno()), size, stamp, str(path))
                yield raw
                _hold(os.fstat(raw.fileno()), size, stamp, str(path))
            _hold(path.stat(), size, stamp, str(path))
        except FileNotFoundError as error:
            raise _gone(str(path)) from error
        except OSError as error:
            raise SourceError(
                f"the file cannot be read: {error.strerror or error}",
                hint="check its permissions and the disk's health",
                problem="unreachable",
                place=str(path),
            ) from error


class Bucket(Place):
    """A prefix of an object store, by obstore: S3, Google's, Azure's and their like."""

    atomic = True

    def __init__(self, folder: str, pattern: str, options: Mapping[str, str]) -> None:
        self.base = folder
        self.pattern = pattern
        self._meant = _matcher(pattern)
        self._options = dict(options)
        self._store: Any = None

    def found(self) -> Iterator[Found]:
        """As the place's."""
        with self._answering():
            for page in self._opened_store().list():
                for each in page:
                    name = each["path"]
                    if _meant(name, self._meant):
                        at_ns = int(each["last_modified"].timestamp() * 1e9)
                        tag = each.get("e_tag") or str(at_ns)
                        yield Found(name, each["size"], tag, at_ns)

    @contextmanager
    def opened(self, name: str, size: int, stamp: str) -> Iterator[IO[bytes]]:
        """As the place's."""
        place = f"{self.base.rstrip('/')}/{name}"
        with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as content:
            with self._answering(place):
                answer = self._opened_store().get(name)
                tag = answer.meta.get("e_tag")
                at = str(int(answer.meta["last_modified"].timestamp() * 1e9))
                if (tag or at) != stamp or answer.meta["size"] != size:
                    raise _changed(place)
                for chunk in answer.stream():
                    content.write(memoryview(chunk))
            content.seek(0)
            yield cast("IO[bytes]", content)

    def _opened_store(self) -> Any:
        if self._store is None:
            try:
                from obstore.store import from_url
            except ImportError as error:
                raise without_package("buckets", "obstore", "objects", self.base) from error
            self._store = from_url(self.base, **cast("Any", self._options))
        return self._store

    @contextmanager
    def _answering(self, place: str | None = None) -> Iterator[None]:
        try:
            yield
        except SourceError:
            raise
        except FileNotFoundError as error:
            raise _gone(place or self.base) from error
        except Exception as error:
            raise SourceError(
                f"the store does not answer: {str(error).splitlines()[0]}",
                hint="check its address, its credentials and the network",
                problem="unreachable",
                place=place or self.base,
            ) from error


def _divided(text: str) -> tuple[str, str]:
    """The folder before the first part with a wild card, and the pattern from there on."""
    parts = text.split("/")
    first = next((at for at, part in enumerate(parts) if _WILD.search(part)), None)
    if first is None:
        raise DeclarationError(
            f"{text!r} names no files to look for",
            hint="say which with a wild card: 'in/*.jsonl', 'in/**/*.parquet'",
        )
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


def _matcher(pattern: str) -> re.Pattern[str]:
    """``**/`` is any number of folders, ``*`` and ``?`` stay within one."""
    pieces = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", pattern)
    text = "".join(
        pieces.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts
    )
    return re.compile(text + r"\Z")


def _meant(name: str, pattern: re.Pattern[str]) -> bool:
    """Whether a name is meant; hidden and unfinished files are not."""
    parts = name.split("/")
    hidden = any(part.startswith((".", "_")) for part in parts)
    return not hidden and not name.endswith(_UNFINISHED) and bool(pattern.match(name))


def _hold(about: os.stat_result, size: int, stamp: str, place: str) -> None:
    if (about.st_size, str(about.st_mtime_ns)) != (size, stamp):
        raise _changed(place)


def _changed(place: str) -> SourceError:
    return NoLongerThereError(
        "the file has changed since it was found; nothing of it is stored",
        hint="write files elsewhere and rename them into the folder; it is read as it is now",
        problem="changed",
        place=place,
    )


def _gone(place: str) -> SourceError:
    return NoLongerThereError(
        "the file has gone since it was found; nothing of it is stored",
        hint="put it back to have it read",
        problem="gone",
        place=place,
    )
