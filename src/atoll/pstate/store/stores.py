"""The vnode stores of one module on one host: where they lie, and the ways to open them."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import lmdb

from atoll.errors import StateError
from atoll.pstate.store.attempt import Attempt
from atoll.pstate.store.environment import EnvironmentCache, shared_environments
from atoll.pstate.store.history import History, Prior
from atoll.pstate.store.opening import VnodeHistory
from atoll.pstate.store.store_file import store_error
from atoll.pstate.store.vnode_writer import DAMAGE, VnodeWriter
from atoll.pstate.store.writer_lock import PATIENCE_SECONDS, Patience

_log = logging.getLogger(__name__)


class VnodeStores:
    """The vnode stores of one module, ``<folder>/<pstate>/<vnode>/``, each a cache of the log.

    Cheap to make; everything in one process shares the open environments.

    Args:
        folder: The module's folder among the worker's local state.
        environments: The open environments; those of the process when None.
        patience_seconds: How long to wait for a writer that may stand still; then the store is
            left to it and built anew.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        environments: EnvironmentCache | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.folder = os.path.realpath(folder)
        self.environments = environments or shared_environments()
        self.patience = Patience(patience_seconds)

    def path(self, pstate: str, vnode: int) -> str:
        """The folder of one vnode store."""
        if not pstate or "/" in pstate or pstate in {".", ".."}:
            raise StateError(f"{pstate!r} is no name of a PState")
        return f"{self.folder}/{pstate}/{vnode}"

    def open(
        self,
        pstate: str,
        vnode: int,
        attempt: Attempt,
        history: History,
        priors: Sequence[Prior] = (),
    ) -> VnodeWriter:
        """Start writing to a vnode for one task run; waits while another run writes to it.

        Args:
            pstate: The PState's name.
            vnode: The vnode.
            attempt: Who writes.
            history: The committed log as of the commit before the attempt's id.
            priors: What the attempt's earlier steps changed in this PState.

        Raises:
            FencedError: When a later attempt has written to the vnode.
            DamageError: When a file of the log is damaged.
            StorageError: When the local folder cannot be used.
        """
        known = VnodeHistory(history, pstate, vnode)
        path = self.path(pstate, vnode)
        parts = (self.environments, path, attempt, known, priors, self.patience)
        try:
            try:
                return VnodeWriter(*parts)
            except DAMAGE as error:
                if "file" in getattr(error, "context", {}):
                    raise  # the committed log itself is damaged
                _log.warning("vnode store %s is damaged (%s); it will be rebuilt", path, error)
                return VnodeWriter(*parts)
        except lmdb.Error as error:
            raise store_error(error, path) from error

    def discard(self, pstate: str, vnode: int) -> None:
        """Drop a vnode store; it is rebuilt when it is needed."""
        self.environments.discard(self.path(pstate, vnode))


@functools.lru_cache(maxsize=256)
def module_stores(local: str, module: str) -> VnodeStores:
    """The vnode stores of a module below a worker's local folder."""
    return VnodeStores(Path(local) / "state" / module)
