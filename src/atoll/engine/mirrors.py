"""The PStates that other topologies write as one microbatch reads them.

As of the commit that its plan names for each of those topologies, of this module or another.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from atoll.microbatch.commits.history import CommitHistory, latest_commit
from atoll.pstate.spec import PStateSpec
from atoll.pstate.store.stores import module_stores
from atoll.pstate.view import PStateView
from atoll.storage.numbered import NumberedObjects

if TYPE_CHECKING:
    from atoll.engine.program import JobSpec, Program
    from atoll.storage.roots import RootStore


class MirrorViews:
    """Opens each PState of another topology once per task.

    Args:
        program: The topology that reads.
        spec: The job, which names the commits.
        store: The root.
    """

    def __init__(self, program: Program, spec: JobSpec, store: RootStore) -> None:
        """Nothing is read yet."""
        self._program = program
        self._commits = spec.mirrors
        self._store = store
        self._history = functools.cache(self._opened)
        self.view = functools.cache(self._view)

    def _view(self, name: str) -> PStateView:
        """The PState of that name; one of another module is known as ``module.name``.

        Raises:
            UsageError: When the commit that the plan names can no longer be read.
        """
        spec = self._present(self._program.mirrors[name])
        stores = module_stores(str(self._program.local), spec.module)
        history = self._history(spec.module, spec.topology)
        return PStateView(stores, spec.name, spec.vnode_count, history, spec)

    def _present(self, spec: PStateSpec) -> PStateSpec:
        """The PState as it is deployed now: another module's may have been migrated since."""
        if spec.module == self._program.module:
            return spec
        objects = NumberedObjects(self._store, f"{spec.module}/deployments")
        plain = msgspec.msgpack.decode(objects.read(objects.latest() or 0))
        return PStateSpec.from_json(plain["topologies"][spec.topology]["pstates"][spec.name])

    def _opened(self, module: str, topology: str) -> CommitHistory:
        head = latest_commit(self._store, module, topology)
        commit_id = self._commits[f"{module}/{topology}"]
        return CommitHistory(self._store, module, topology, head).as_of(commit_id)
