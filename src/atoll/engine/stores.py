"""The vnode stores that one actor writes in one job, opened together and committed together.

All are opened before the first row is processed, in one order that every task keeps, so that a
task that was given up on and its successor can never wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import lmdb

from atoll.beats import present
from atoll.pstate.converter import Converter, rewrite
from atoll.pstate.store.attempt import Attempt
from atoll.pstate.store.store_file import store_bytes, store_error
from atoll.pstate.store.stores import VnodeStores
from atoll.pstate.store.vnode_writer import VnodeWriter

if TYPE_CHECKING:
    from atoll.engine.program import JobSpec, Program
    from atoll.microbatch.commits.history import CommitHistory


def state_folder(local: Path, module: str) -> Path:
    """Where a worker keeps the vnode stores of a module."""
    return local / "state" / module


class OpenStores:
    """A context manager: leaves no writer open, aborts what was not committed."""

    def __init__(self, program: Program, spec: JobSpec, history: CommitHistory, token: str) -> None:
        """Nothing is opened yet."""
        self.spec = spec
        self.history = history
        self.stores = VnodeStores(state_folder(program.local, program.module))
        self.attempt = Attempt(spec.epoch, spec.id, spec.version, spec.job, token, spec.timeline)
        self.sized = {name: each.node for name, each in program.pstates.items() if each.track_size}
        self.opened: dict[str, int] = {}
        self.logs_applied = 0
        self.migrated: dict[str, list[int]] = {}
        self._specs = program.pstates
        self._open: dict[tuple[str, int], VnodeWriter] = {}

    def open_all(self, needed: Mapping[str, Iterable[int]]) -> None:
        """Open the vnodes of each PState named, in the order of names and vnodes."""
        for pstate in sorted(needed):
            for vnode in sorted(needed[pstate]):
                present().begin(("opening the store of", pstate, "vnode", vnode))
                priors = self.spec.priors.get(pstate, ())
                writer = self.stores.open(pstate, vnode, self.attempt, self.history, priors)
                if (known := self.sized.get(pstate)) is not None:
                    writer.sized = known
                writer.ranked = self._specs[pstate].ranks
                kind = writer.opening.kind
                self.opened[kind] = self.opened.get(kind, 0) + 1
                self.logs_applied += writer.opening.logs
                self._open[pstate, vnode] = writer
        for (pstate, vnode), writer in self._open.items():
            self._migrate(pstate, vnode, writer)

    def converter(self, pstate: str, vnode: int) -> Converter | None:
        """What makes values before the microbatch those of the present schema; None: they are."""
        spec = self._specs[pstate]
        generation = self.history.generation(pstate, vnode) if spec.migrations else 0
        return Converter(spec, generation) if generation < spec.generation else None

    def _migrate(self, pstate: str, vnode: int, writer: VnodeWriter) -> None:
        """Rewrite a vnode whose values are of an older schema, once per attempt."""
        if vnode in self.spec.migrated_vnodes.get(pstate, ()):
            return
        convert = self.converter(pstate, vnode)
        if convert is not None:
            rewrite(writer, convert)
            self.migrated.setdefault(pstate, []).append(vnode)

    def get(self, pstate: str, vnode: int) -> VnodeWriter:
        """The open writer of a vnode."""
        return self._open[pstate, vnode]

    def of(self, pstate: str) -> dict[int, VnodeWriter]:
        """The open writers of a PState, by vnode in order."""
        return {vnode: each for (name, vnode), each in self._open.items() if name == pstate}

    def pstates(self) -> list[str]:
        """The PStates with open writers."""
        return sorted({name for name, _ in self._open})

    def vnode_bytes(self) -> dict[str, dict[int, int]]:
        """How much room the open stores take, by PState and vnode."""
        sizes: dict[str, dict[int, int]] = {}
        for pstate, vnode in self._open:
            path = self.stores.path(pstate, vnode)
            sizes.setdefault(pstate, {})[vnode] = store_bytes(path)
        return sizes

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Abort every writer that was not committed; drop the stores when one proved damaged.

        Raises:
            StorageError: Instead of LMDB's own error.
        """
        raised: Exception | None = None
        for writer in reversed(self._open.values()):
            try:
                writer.close(error)
            except Exception as failure:  # noqa: BLE001 - the others are closed before it is raised
                raised = raised or failure
        if raised is not None:
            raise raised
        if isinstance(error, lmdb.Error):
            raise store_error(error, self.stores.folder) from error
