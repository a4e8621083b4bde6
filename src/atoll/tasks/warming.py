"""Gets a worker ready for an actor that will run there: its stores are opened and up to date.

What takes long on a worker that is new to a vnode is building its store. That can be done before
the actor moves, while the old owner still works; then only the last few logs are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.microbatch.history import CommitHistory
from atoll.pstate.stores import VnodeStores
from atoll.pstate.view import PStateView
from atoll.storage.local import LocalStore
from atoll.tasks.sessions import state_folder

if TYPE_CHECKING:
    from atoll.tasks.program import Program

__all__ = ["warm_up"]


def warm_up(program: Program, unit: int, commit_id: int, timeline: int) -> None:
    """Open the stores of the vnodes that a unit will own; each holds the commit then, or more.

    Args:
        program: The topology, on the placement that it will have.
        unit: Whose vnodes.
        commit_id: A commit that was the last one lately.
        timeline: The timeline that it belongs to.

    Raises:
        AtollError: When the commit was dropped, or a file is damaged.
    """
    store = LocalStore(program.root)
    history = CommitHistory.open(store, program.module, program.topology, commit_id, timeline)
    stores = VnodeStores(
        state_folder(program.local, program.module),
        microbatches_kept=program.history_microbatches,
    )
    for pstate, spec in program.pstates.items():
        view = PStateView(stores, pstate, spec.vnode_count, history)
        for vnode in program.owned(pstate, unit):
            next(view.scan(vnode, limit=1), None)
