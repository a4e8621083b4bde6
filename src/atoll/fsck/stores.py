"""Compares the workers' local stores with the committed log that they are a cache of.

LMDB keeps no checksums, so a byte that a disk changed inside a store is not noticed when it is
read. Here every vnode is built a second time, from checkpoint and logs, and compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from atoll.errors import AtollError
from atoll.microbatch.commits.history import CommitHistory, latest_commit
from atoll.microbatch.commits.objects import unpack_ids
from atoll.pstate.store.changefile import rebuilt
from atoll.pstate.store.sizes import EVERYTHING_END
from atoll.pstate.store.stores import module_stores
from atoll.pstate.view import PStateView

if TYPE_CHECKING:
    from atoll.fsck.findings import Report
    from atoll.storage.roots import RootStore


def check_stores(store: RootStore, local: Path, module: str, topology: str, report: Report) -> None:
    """Add to the report the vnode stores that differ from the committed log."""
    try:
        last = latest_commit(store, module, topology)
    except (AtollError, msgspec.MsgspecError):
        return  # told already: nothing can be compared
    history = CommitHistory(store, module, topology, last)
    stores = module_stores(str(local), module)
    for pstate, part in last.pstates.items():
        for vnode, touched in enumerate(unpack_ids(part.touched)):
            folder = Path(stores.path(pstate, vnode))
            if not touched or not folder.is_dir():
                continue
            report.stores += 1
            try:
                expected = rebuilt(history, pstate, vnode)
            except AtollError:
                continue  # the log itself is damaged: told already
            view = PStateView(stores, pstate, len(unpack_ids(part.touched)), history)
            if dict(view.scan(vnode, high=EVERYTHING_END)) != expected:
                report.damage(
                    str(folder),
                    "the vnode store differs from the committed log",
                    "reads give wrong values until it is deleted; it is rebuilt by itself then",
                )
