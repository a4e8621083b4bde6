"""Whether a PState that was to be filled from the past has joined its topology, and is readable.

A deployment says what was to be filled, and stays as it is; the commits of the topology say
whether that is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from atoll.errors import FillingError
from atoll.microbatch.commits.history import CommitHistory, latest_commit

if TYPE_CHECKING:
    from atoll.microbatch.commits.objects import Commit
    from atoll.storage.roots import RootStore
    from atoll.views.deployment import Deployment, FillingDeployment


def has_joined(store: RootStore, module: str, topology: str, filling: FillingDeployment) -> bool:
    """Whether what was filled has joined its topology: whether a commit that counts knows it."""
    return is_in(latest_commit(store, module, topology), filling)


def is_in(commit: Commit, filling: FillingDeployment) -> bool:
    """Whether a commit of the topology knows what was filled."""
    return commit.pstates.keys() >= set(filling.stored)


def still_filling(
    store: RootStore, module: str, deployed: Deployment | None
) -> dict[str, FillingDeployment]:
    """What of a deployed module is filled now, by topology."""
    topologies = {} if deployed is None else deployed.topologies
    return {
        name: each.filling
        for name, each in topologies.items()
        if each.filling is not None and not has_joined(store, module, name, each.filling)
    }


def when_joined(name: str, history: Callable[[], CommitHistory]) -> Callable[[], CommitHistory]:
    """The log of a topology, once a PState that is filled beside it has joined it."""

    def read() -> CommitHistory:
        found = history()
        if name not in found.commit.pstates:
            raise FillingError(
                f"PState {name!r} is being filled from the past of its depots, and not readable "
                "before it has caught up",
                hint="the topology's status says how far it is; wait_filled() of the topology "
                "waits for it",
                pstate=name,
                topology=found.topology,
            )
        return found

    return read
