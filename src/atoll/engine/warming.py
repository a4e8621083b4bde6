"""Gets a worker ready for an actor that will run there: its stores are opened and up to date.

What takes long on a worker that is new to a vnode is building its store. That can be done before
the actor moves, while the old owner still works; then only the last few logs are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.engine.stores import state_folder
from atoll.errors import AtollError, DamageError, NotFoundError
from atoll.microbatch.commits.history import CommitHistory, latest_commit
from atoll.pstate.store.stores import VnodeStores
from atoll.pstate.view import PStateView
from atoll.storage.roots import RootStore, open_store

if TYPE_CHECKING:
    from atoll.engine.program import Program


def warm_up(
    program: Program, unit: int, commit_id: int, timeline: int, share: tuple[int, int] = (0, 1)
) -> None:
    """Open the stores of the vnodes that a unit will own; each holds the commit then, or more.

    The topology commits meanwhile; each store is brought to the commit that is the last one by
    then, so that little is missing in the end.

    Args:
        program: The topology, on the placement that it will have.
        unit: Whose vnodes.
        commit_id: A commit that was the last one lately.
        timeline: The timeline that it belongs to.
        share: Of its vnodes the one with the first number, and each as many further on as the
            second says; all of them unless told.

    Raises:
        AtollError: When a file is damaged, or the topology was rolled back.
    """
    store = open_store(program.root)
    stores = VnodeStores(state_folder(program.local, program.module))
    first, step = share
    owned = [(name, vnode) for name in program.pstates for vnode in program.owned(name, unit)]
    owned = owned[first::step]
    if not owned:
        return
    names = (store, program.module, program.topology)
    try:
        history = CommitHistory.open(*names, commit_id, timeline)
    except NotFoundError as error:
        history = _newer(names, commit_id, timeline, error)
    for pstate, vnode in owned:
        history = _built(program, stores, pstate, vnode, _latest(history))


def _latest(history: CommitHistory) -> CommitHistory:
    """The history as of the last commit; as it is when there is none, or a rollback came."""
    names = (history.store, history.module, history.topology)
    last = latest_commit(*names, hint=history.commit_id)
    later = last.timeline == history.timeline and last.id > history.commit_id
    return CommitHistory(*names, last) if later else history


def _built(
    program: Program, stores: VnodeStores, pstate: str, vnode: int, history: CommitHistory
) -> CommitHistory:
    """Bring a store up to date; with which history it could be done."""
    count = program.pstates[pstate].vnode_count
    while True:
        try:
            next(PStateView(stores, pstate, count, history).scan(vnode, limit=1), None)
        except (DamageError, NotFoundError) as error:
            names = (history.store, history.module, history.topology)
            history = _newer(names, history.commit_id, history.timeline, error)
        else:
            return history


def _newer(
    names: tuple[RootStore, str, str], commit_id: int, timeline: int, error: AtollError
) -> CommitHistory:
    """The history as of the last commit; where none is later, the error was not that one's age."""
    last = latest_commit(*names)
    if last.timeline != timeline or last.id <= commit_id:
        raise error
    return CommitHistory(*names, last)
