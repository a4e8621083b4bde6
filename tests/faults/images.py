"""What a disk may hold after the power is cut at a point of a recorded trace.

The rules are the weakest that POSIX allows: a file's data is durable once the file was fsynced, a
name once the folder that holds it was fsynced, whatever else was synced. Of what was not made
durable any part may have survived, in any combination; a write may have survived in part.

An image is the replay, in order, of the durable operations and of the survivors among the others.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from interpose import SYNCS, WRITES, Call, Mark

__all__ = ["Image", "Images", "steps_of"]

_SECTOR = 512
_UNFINISHED = re.compile(r"\.tmp-[0-9a-f]+")


@dataclass(frozen=True)
class Step:
    """One change of a disk: of one file's data, or of one name in one folder."""

    at: int
    kind: str  # data, cut, add, remove
    file: int
    folder: str = ""
    name: str = ""
    offset: int = 0
    data: bytes = b""
    is_folder: bool = False

    @property
    def is_name(self) -> bool:
        """Whether it changes a folder."""
        return self.kind in {"add", "remove"}


@dataclass(frozen=True)
class Image:
    """The files and folders that a disk holds."""

    files: dict[str, bytes]
    folders: tuple[str, ...]
    story: str

    def digest(self) -> bytes:
        """Two images with the same content have the same, whatever unfinished files are called."""
        whole = hashlib.blake2b(digest_size=16)
        files = ((_UNFINISHED.sub(".tmp-", path), data) for path, data in self.files.items())
        for path, data in sorted(files):
            whole.update(b"%d %s\0" % (len(data), path.encode()) + data)
        whole.update("\0".join(sorted(self.folders)).encode())
        return whole.digest()

    def write(self, root: Path) -> None:
        """Make the folder what the image says; it must not exist."""
        root.mkdir(parents=True)
        for folder in sorted(self.folders):
            (root / folder).mkdir()
        for path, data in self.files.items():
            (root / path).write_bytes(data)


def steps_of(trace: Sequence[Call | Mark]) -> list[Step]:
    """The changes that the calls of a trace made."""
    steps: list[Step] = []
    for at, call in enumerate(trace):
        if isinstance(call, Call) and not call.error:
            steps += _steps(at, call)
    return steps


def _steps(at: int, call: Call) -> Iterator[Step]:
    folder, name = _split(call.path)
    target_folder, target = _split(call.target)
    if call.kind in WRITES:
        yield Step(at, "data", call.file, offset=call.offset, data=call.data)
    elif call.kind in {"ftruncate", "truncate"}:
        yield Step(at, "cut", call.file, offset=call.offset)
    elif call.kind == "open" and call.created:
        yield Step(at, "add", call.file, folder, name)
    elif call.kind == "open" and call.cut:
        yield Step(at, "cut", call.file)
    elif call.kind == "mkdir":
        yield Step(at, "add", call.file, folder, name, is_folder=True)
    elif call.kind == "link":
        yield Step(at, "add", call.file, target_folder, target)
    elif call.kind in {"unlink", "remove", "rmdir"}:
        yield Step(at, "remove", call.file, folder, name)
    elif call.kind in {"rename", "replace"}:
        yield Step(at, "add", call.file, target_folder, target)
        yield Step(at, "remove", call.file, folder, name)


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or ".", name


class Images:
    """The images of one trace.

    Args:
        trace: What an interposer recorded, from an empty root on.
    """

    def __init__(self, trace: Sequence[Call | Mark]) -> None:
        self.trace = trace
        self.steps = steps_of(trace)
        self._last: tuple[int, tuple[list[Step], list[Step]]] | None = None

    def at(self, cut: int) -> tuple[list[Step], list[Step]]:
        """Of the steps before the cut, the durable ones and the others."""
        if self._last is not None and self._last[0] == cut:
            return self._last[1]
        steps = [step for step in self.steps if step.at < cut]
        synced: dict[int, int] = {}  # file to its last fsync
        folders: dict[str, int] = {}
        for at, call in enumerate(self.trace[:cut]):
            if isinstance(call, Call) and call.kind in SYNCS and not call.error and not call.lied:
                synced[call.file] = at
                folders[call.path] = at
        durable, pending = [], []
        for step in steps:
            last = folders.get(step.folder, -1) if step.is_name else synced.get(step.file, -1)
            (durable if last > step.at else pending).append(step)
        self._last = (cut, (durable, pending))
        return durable, pending

    def marks(self, cut: int, what: str) -> list[object]:
        """What had been promised before the cut."""
        marks = (each for each in self.trace[:cut] if isinstance(each, Mark))
        return [mark.value for mark in marks if mark.what == what]

    def whole(self, cut: int | None = None) -> Image:
        """The disk as the process saw it."""
        return _image([step for step in self.steps if cut is None or step.at < cut], "all")

    def choices(
        self, cut: int, random_: random.Random, extra: int
    ) -> list[tuple[str, Sequence[Step]]]:
        """What may survive a power cut before the trace's entry ``cut``: story and survivors.

        None, all, each alone, all but each, only names, only data, torn writes; then ``extra``
        random subsets.
        """
        return list(_subsets(self.at(cut)[1], random_, extra))

    def image(self, cut: int, story: str, survivors: Sequence[Step]) -> Image:
        """The disk after a cut, with the survivors among what was not durable."""
        steps = sorted([*self.at(cut)[0], *survivors], key=lambda step: step.at)
        return _image(steps, f"cut {cut}: {story}")


def _subsets(
    pending: list[Step], random_: random.Random, extra: int
) -> Iterator[tuple[str, Sequence[Step]]]:
    yield "nothing survived", ()
    if not pending:
        return
    yield "all survived", pending
    for index, step in enumerate(pending):
        about = f"{step.kind} {step.folder}/{step.name} of file {step.file}"
        yield f"only {about}", (step,)
        yield f"all but {about}", (*pending[:index], *pending[index + 1 :])
    yield "names without data", [step for step in pending if step.is_name]
    yield "data without names", [step for step in pending if not step.is_name]
    yield from _torn(pending, random_)
    for _ in range(extra):
        share = random_.choice([0.3, 0.6, 0.9])
        some = [step for step in pending if random_.random() < share]
        for index, step in enumerate(some):
            if step.kind == "data" and random_.random() < 0.5:
                some[index] = _tear(step, random_)
        yield "a random part, some of it torn", some


def _torn(pending: list[Step], random_: random.Random) -> Iterator[tuple[str, Sequence[Step]]]:
    for index, step in enumerate(pending):
        if step.kind == "data":
            for _ in range(3):
                torn = _tear(step, random_)
                story = f"a write of {len(step.data)} bytes torn"
                yield story, (*pending[:index], torn, *pending[index + 1 :])


def _tear(step: Step, random_: random.Random) -> Step:
    """A part of a write: its beginning, or all but some sectors, which hold zeros."""
    data = step.data
    if random_.random() < 0.5:
        return replace(step, data=data[: random_.randrange(len(data) + 1)])
    torn = bytearray(data)
    first = step.offset // _SECTOR
    for sector in range(first, (step.offset + len(data) - 1) // _SECTOR + 1):
        if random_.random() < 0.5:
            low = max(0, sector * _SECTOR - step.offset)
            high = min(len(data), (sector + 1) * _SECTOR - step.offset)
            torn[low:high] = bytes(high - low)
    return replace(step, data=bytes(torn))


def _image(steps: Iterable[Step], story: str) -> Image:
    contents: dict[int, bytearray] = {}
    entries: dict[str, dict[str, Step]] = {}
    for step in steps:
        if step.kind == "data":
            data = contents.setdefault(step.file, bytearray())
            if len(data) < step.offset:
                data.extend(bytes(step.offset - len(data)))
            data[step.offset : step.offset + len(step.data)] = step.data
        elif step.kind == "cut":
            data = contents.setdefault(step.file, bytearray())
            data[step.offset :] = b""
            data.extend(bytes(step.offset - len(data)))
        elif step.kind == "add":
            entries.setdefault(step.folder, {})[step.name] = step
        else:
            entries.get(step.folder, {}).pop(step.name, None)
    files: dict[str, bytes] = {}
    folders: list[str] = []
    waiting = ["."]
    while waiting:  # only what can be reached from the root is there
        folder = waiting.pop()
        for name, step in entries.get(folder, {}).items():
            path = name if folder == "." else f"{folder}/{name}"
            if step.is_folder:
                folders.append(path)
                waiting.append(path)
            else:
                files[path] = bytes(contents.get(step.file, b""))
    return Image(files, tuple(folders), story)
