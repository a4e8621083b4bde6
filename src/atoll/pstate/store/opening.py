"""Bringing a vnode store to the exact state that an attempt or a reader starts from.

A store may hold the work of an attempt that died, lost or won; it may lie behind the committed
log because another worker owned the vnode meanwhile; it may follow a timeline that a rollback
ended; it may be new. Every case ends in the same state: that of the last commit, plus the
earlier steps of the attempt that asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from atoll.beats import present
from atoll.errors import DamageError, FencedError, StateError
from atoll.pstate.store.attempt import Attempt, Header, Pending
from atoll.pstate.store.changefile import read_vnode
from atoll.pstate.store.history import FileRef, History, Prior
from atoll.pstate.store.transaction import StoreTransaction


class Opening(msgspec.Struct, frozen=True):
    """What it took to bring the store to the state needed; for metrics and logs.

    Attributes:
        kind: ``current`` (nothing missing), ``behind`` (logs were applied to what it held) or
            ``absent`` (it was built from nothing or from a checkpoint).
        logs: How many incremental logs were applied.
        undone: How many pieces of pending work were taken back.
    """

    kind: Literal["current", "behind", "absent"] = "current"
    logs: int = 0
    undone: int = 0


class VnodeHistory:
    """The committed log's answers about one vnode of one PState.

    Args:
        history: The log, as of one commit.
        pstate: The PState's name.
        vnode: The vnode.
    """

    __slots__ = ("commit_id", "history", "horizon", "pstate", "timeline", "vnode")

    def __init__(self, history: History, pstate: str, vnode: int) -> None:
        self.history = history
        self.pstate = pstate
        self.vnode = vnode
        self.commit_id = history.commit_id
        self.timeline = history.timeline
        self.horizon = history.horizon

    def last_touched(self) -> int:
        """The last committed id that changed the vnode."""
        return self.history.last_touched(self.pstate, self.vnode)

    def shared_upto(self, header: Header) -> int | None:
        """The last id up to which what a store holds counts on this timeline; None: all of it."""
        if header.timeline >= self.timeline:
            return None
        return self.history.branch_since(header.timeline)

    def is_committed(self, pending: Sequence[Pending]) -> bool:
        """Whether pending work is exactly what its microbatch committed for the vnode."""
        commit_id = pending[0].id
        if commit_id > self.commit_id:
            return False
        tokens = self.history.committed_tokens(self.pstate, self.vnode, commit_id)
        return all(work.token in tokens for work in pending) and tuple(
            work.step for work in pending
        ) == self.history.committed_steps(self.pstate, self.vnode, commit_id)


def open_for_attempt(
    store: StoreTransaction, attempt: Attempt, vnode: VnodeHistory, priors: Sequence[Prior]
) -> Opening:
    """Bring the store to the commit before the attempt's id, plus the attempt's earlier steps.

    Args:
        store: A write transaction. Its header is set; the caller stores it.
        attempt: Who asks.
        vnode: The committed log as of the commit before the attempt's id.
        priors: What the attempt's earlier steps did to this PState, in order.

    Raises:
        FencedError: When a later attempt has written here.
        StateError: When the log given is not the one the attempt continues.
        DamageError: When the store or a file is damaged.
    """
    _check(store.header, attempt, vnode)
    pending = store.header.pending
    same = store.header.timeline == vnode.timeline
    own = pending if same and pending and pending[0].id == attempt.id else ()
    opening = Opening() if own else settle(store, vnode)
    logs, undone = _settle_steps(store, own, attempt, vnode, priors)
    return Opening(
        "behind" if logs and opening.kind == "current" else opening.kind,
        opening.logs + logs,
        opening.undone + undone,
    )


def _check(header: Header, attempt: Attempt, vnode: VnodeHistory) -> None:
    if attempt.fence < header.fence:
        epoch, timeline, fence_id, version, step = header.fence
        raise FencedError(
            "a later attempt has written to this vnode",
            hint="stop: another coordinator or a later attempt has taken over",
            pstate=vnode.pstate,
            vnode=vnode.vnode,
            attempt=list(attempt.fence),
            fenced_by={
                "epoch": epoch,
                "timeline": timeline,
                "id": fence_id,
                "version": version,
                "step": step,
            },
        )
    if header.timeline > vnode.timeline:
        raise FencedError(
            "this vnode follows a rollback that the attempt does not know of",
            hint="stop: the microbatch was abandoned",
            pstate=vnode.pstate,
            vnode=vnode.vnode,
            timeline=header.timeline,
        )
    if vnode.commit_id != attempt.id - 1:
        raise StateError(
            f"microbatch {attempt.id} cannot start from commit {vnode.commit_id}",
            pstate=vnode.pstate,
            vnode=vnode.vnode,
        )


def settle(store: StoreTransaction, vnode: VnodeHistory) -> Opening:
    """Bring the store exactly to the commit of the log given, with nothing pending.

    What it holds of a timeline that a rollback ended is taken back first, down to the branch.
    """
    header = store.header
    undone = 0
    applied = header.applied
    shared = vnode.shared_upto(header)
    target = vnode.commit_id if shared is None else min(shared, vnode.commit_id)
    if header.pending:
        if header.pending[0].id <= target and vnode.is_committed(header.pending):
            applied = header.pending[0].id
        else:
            store.undo(header.pending)
            undone = len(header.pending)
    if applied > target:
        undone += 1
        if header.floor > target:
            store.clear()
            applied = 0
        else:
            store.undo_above(target)
            applied = target
    # A cleared store has lost its floor, so go on from the store's header, not from the old one.
    store.header = msgspec.structs.replace(store.header, applied=applied, pending=())
    opening = _catch_up(store, vnode)
    store.header = msgspec.structs.replace(
        store.header, applied=vnode.commit_id, timeline=vnode.timeline
    )
    return msgspec.structs.replace(opening, undone=undone)


def _catch_up(store: StoreTransaction, vnode: VnodeHistory) -> Opening:
    last = vnode.last_touched()
    if store.header.applied >= last:
        return Opening()
    found = vnode.history.rebuild(vnode.pstate, vnode.vnode)
    if store.header.applied < found.since:
        store.clear()
        store.header = msgspec.structs.replace(store.header, applied=0)
    kind: Literal["behind", "absent"] = "behind" if store.header.applied else "absent"
    if found.checkpoint is not None and store.header.applied < found.checkpoint_id:
        kind = "absent"
        _load_checkpoint(store, vnode, found.checkpoint, found.checkpoint_id)
    logs = [(log_id, ref) for log_id, ref in found.logs if log_id > store.header.applied]
    reached = logs[-1][0] if logs else store.header.applied
    if reached < last:
        raise DamageError(
            f"the committed log ends at {reached} for a vnode that {last} changed",
            pstate=vnode.pstate,
            vnode=vnode.vnode,
        )
    floor = store.header.floor
    steps: dict[int, int] = {}
    for log_id, ref in logs:
        present().beat()
        step = steps[log_id] = steps.get(log_id, -1) + 1
        keep = log_id > vnode.horizon
        floor = floor if keep else log_id
        keys, values = read_vnode(vnode.history, ref, vnode.vnode)
        store.apply(keys, values, reverse_at=(log_id, step) if keep else None)
    store.header = msgspec.structs.replace(store.header, floor=floor)
    return Opening(kind, logs=len(logs))


def _load_checkpoint(
    store: StoreTransaction, vnode: VnodeHistory, checkpoint: FileRef, checkpoint_id: int
) -> None:
    store.clear()
    keys, values = read_vnode(vnode.history, checkpoint, vnode.vnode)
    store.apply(keys, values, reverse_at=None)
    store.header = msgspec.structs.replace(store.header, applied=checkpoint_id, floor=checkpoint_id)


def _settle_steps(
    store: StoreTransaction,
    own: Sequence[Pending],
    attempt: Attempt,
    vnode: VnodeHistory,
    priors: Sequence[Prior],
) -> tuple[int, int]:
    """Keep, take back or supply the earlier steps; (logs applied, pieces taken back)."""
    kept: list[Pending] = []
    rest = list(own)
    logs = undone = 0
    for prior in sorted(priors, key=lambda prior: prior.step):
        if rest and rest[0].step == prior.step and rest[0].token in prior.tokens:
            kept.append(rest.pop(0))
            continue
        for ref in prior.files:
            keys, values = read_vnode(vnode.history, ref, vnode.vnode)
            if keys:
                undone += _undo(store, rest)
                store.apply(keys, values, reverse_at=(attempt.id, prior.step))
                # Which of the winners wrote the file does not matter: all of them committed
                # together, or none.
                token = min(prior.tokens)
                kept.append(Pending(attempt.id, prior.step, attempt.epoch, attempt.version, token))
                logs += 1
    undone += _undo(store, rest)
    store.header = msgspec.structs.replace(store.header, pending=tuple(kept))
    return logs, undone


def _undo(store: StoreTransaction, rest: list[Pending]) -> int:
    count = len(rest)
    store.undo(rest)
    rest.clear()
    return count
