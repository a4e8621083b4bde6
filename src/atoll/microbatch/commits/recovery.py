"""Looks now and then whether the files that recovery needs are still there.

While the vnode stores of the workers are up to date, nobody reads the logs and checkpoints that
rebuild them. So a file that was deleted by mistake would be missed only when a store is lost too,
and then its content is in neither place. A look costs little: presence and size, of so many files
at a time, going on the next time where it stopped. Bytes are ``atoll fsck``'s business.

What is lost is told by what it costs: a file that no rebuild of the newest state needs is not
reported. What is reported can be saved: a checkpoint that is written now comes from the stores.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from atoll.errors import AtollError, NotFoundError, StorageError
from atoll.microbatch.commits.history import CommitHistory, commit_objects, read_commit
from atoll.microbatch.commits.objects import Commit, unpack_ids
from atoll.microbatch.commits.tidy import refs_of
from atoll.storage.roots import RootStore

FILES_PER_LOOK = 2_000


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file without which vnodes cannot be rebuilt.

    Attributes:
        file: Relative to the root.
        what: What is wrong with it.
        vnodes: By PState the vnodes whose newest state needs it.
    """

    file: str
    what: str
    vnodes: Mapping[str, list[int]]


class RecoveryCheck:
    """Looks at the files of one topology. Safe from any thread.

    Args:
        store: The root.
        module: The module's name.
        topology: The topology's name.
        published: The commit that counts now.
    """

    def __init__(
        self, store: RootStore, module: str, topology: str, published: Callable[[], Commit]
    ) -> None:
        self.lost: tuple[LostFile, ...] = ()
        self._store = store
        self._names = (module, topology)
        self._published = published
        self._at = 0
        self._suspects: dict[str, int | None] = {}
        self._looking = threading.Lock()

    def look(self, files_max: int | None = FILES_PER_LOOK) -> tuple[LostFile, ...]:
        """What is lost, as far as was looked so far.

        Args:
            files_max: How many files to look at this time; None for all.
        """
        with self._looking:
            some = dict(self._some(self._published(), files_max)) | self._suspects
            faults = {
                name: fault for name, size in some.items() if (fault := self._fault(name, size))
            }
            # Asked for after looking: what was dropped meanwhile, no later commit needs.
            needing = self._needing(faults) if faults else {}
            self._suspects = {name: some[name] for name in needing}
            self.lost = tuple(
                LostFile(name, faults[name], {p: sorted(v) for p, v in needing[name].items()})
                for name in sorted(faults)
                if name in needing
            )
            return self.lost

    def _some(self, commit: Commit, files_max: int | None) -> Iterator[tuple[str, int | None]]:
        """The files that the next few commits name, and these commits, with their sizes."""
        if commit.id == 0:
            return
        history = CommitHistory(self._store, *self._names, commit)
        count = 0
        for _ in range(commit.floor, commit.id + 1):
            self._at = self._at + 1 if commit.floor <= self._at < commit.id else commit.floor
            timeline = history.timelines.of(self._at)
            yield commit_objects(self._store, *self._names, timeline).name(self._at), None
            try:
                each = read_commit(self._store, *self._names, self._at, history.timelines)
            except AtollError:
                continue  # its object shows it
            files = [(ref.name, ref.size) for ref in refs_of(each)]
            yield from files
            count += 1 + len(files)
            if files_max is not None and count >= files_max:
                return

    def _fault(self, name: str, size: int | None) -> str | None:
        try:
            found = self._store.size(name)
        except NotFoundError:
            return "is missing"
        except StorageError as error:
            return f"cannot be looked at: {error.message}"
        return None if size is None or size == found else f"has {found} bytes instead of {size}"

    def _needing(self, faults: Collection[str]) -> Mapping[str, Mapping[str, list[int]]]:
        history = CommitHistory(self._store, *self._names, self._published())
        return vnodes_needing(history, faults)


def vnodes_needing(
    history: CommitHistory, files: Collection[str]
) -> dict[str, dict[str, list[int]]]:
    """For each of the files the vnodes, by PState, whose rebuild as of a commit needs it."""
    needing: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for pstate, part in history.commit.pstates.items():
        for vnode, touched in enumerate(unpack_ids(part.touched)):
            if not touched:
                continue
            try:
                rebuild = history.rebuild(pstate, vnode)
            except AtollError as error:  # a commit on the way cannot be read
                needed = {str(error.context.get("file"))}
            else:
                needed = {file.name for _, file in rebuild.logs}
                needed |= set() if rebuild.checkpoint is None else {rebuild.checkpoint.name}
            for name in needed.intersection(files):
                needing[name][pstate].append(vnode)
    return needing


def vnodes_of(lost: Collection[LostFile]) -> dict[str, list[int]]:
    """By PState all vnodes that cannot be rebuilt."""
    found: dict[str, set[int]] = defaultdict(set)
    for each in lost:
        for pstate, vnodes in each.vnodes.items():
            found[pstate].update(vnodes)
    return {pstate: sorted(vnodes) for pstate, vnodes in found.items()}
