"""Gets a worker ready for an actor that will run there: its stores are opened and up to date.

What takes long on a worker that is new to a vnode is building its store. That can be done before
the actor moves, while the old owner still works; then only the last few logs are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.errors import DamageError, NotFoundError
from atoll.microbatch.history import CommitHistory
from atoll.microbatch.progress import latest_commit
from atoll.pstate.stores import VnodeStores
from atoll.pstate.view import PStateView
from atoll.storage.local import LocalStore
from atoll.tasks.sessions import state_folder

if TYPE_CHECKING:
    from atoll.tasks.program import Program

__all__ = ["warm_up"]


def warm_up(program: Program, unit: int, commit_id: int, timeline: int) -> None:
    """Open the stores of the vnodes that a unit will own; each holds the commit then, or more.

    The topology commits meanwhile, and in the end drops the commit with which this began; then it
    goes on with the last one.

    Args:
        program: The topology, on the placement that it will have.
        unit: Whose vnodes.
        commit_id: A commit that was the last one lately.
        timeline: The timeline that it belongs to.

    Raises:
        AtollError: When a file is damaged, or the topology was rolled back.
    """
    store = LocalStore(program.root)
    names = (program.module, program.topology)
    history: CommitHistory | None = None
    stores = VnodeStores(
        state_folder(program.local, program.module),
        microbatches_kept=program.history_microbatches,
    )
    for pstate, spec in program.pstates.items():
        for vnode in program.owned(pstate, unit):
            while True:
                try:
                    if history is None:
                        history = CommitHistory.open(store, *names, commit_id, timeline)
                    view = PStateView(stores, pstate, spec.vnode_count, history)
                    next(view.scan(vnode, limit=1), None)
                    break
                except (DamageError, NotFoundError):
                    last = latest_commit(store, *names)
                    if last.timeline != timeline or last.id <= commit_id:
                        raise
                    commit_id, history = last.id, CommitHistory(store, *names, last)
