"""Waiting from another process for what comes of an append: the objects of the root say it all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from atoll.depot.producers.table import topology_producer
from atoll.depot.receipt import Awaited, Receipt, awaited
from atoll.depot.segments.chain import SegmentChain
from atoll.errors import ReceiptError, WaitTimeoutError
from atoll.microbatch.commits.objects import Commit, Reach, further
from atoll.storage.folders import depot_folder
from atoll.storage.glances import look_seconds
from atoll.views.deployment import Deployment, TopologyDeployment
from atoll.views.passing import Chains, wait_passed

if TYPE_CHECKING:
    from atoll.storage.roots import RootStore


_LOOK_SECONDS = 0.02
_LOOK_SECONDS_MAX = 0.25
"""Between two looks for a commit that another process made."""


class ConnectedWaiting:
    """Follows what was appended through a module that runs elsewhere.

    Args:
        store: The root.
        deployment: The module as deployed.
        head: Gives the last commit of a topology, by its name.
    """

    def __init__(
        self, store: RootStore, deployment: Deployment, head: Callable[[str], Commit]
    ) -> None:
        self._store = store
        self._deployment = deployment
        self._head = head
        topologies = deployment.topologies.items()
        self._chains = Chains({name: each.own_targets for name, each in topologies})

    def wait(
        self,
        receipts: Sequence[Receipt | Awaited | str],
        timeout_seconds: float,
        topology: str | None = None,
    ) -> dict[str, int]:
        """For each topology that read them, or what came of them, the commit that shows it.

        Raises:
            ReceiptError: When one is no receipt, or of something that is not read here.
            WaitTimeoutError: When it takes longer.
        """
        wanted = wanted_of(receipts, self._name_of)
        topologies = self._deployment.topologies
        among: frozenset[str] | None = None
        if topology is not None:
            readers = {name: tuple(each.depots) for name, each in topologies.items()}
            among = self._chains.leading_to(topology, wanted, readers)
        passing = {name: _Followed(self, name, each) for name, each in topologies.items()}
        return wait_passed(passing, wanted, timeout_seconds, among)

    @property
    def look_seconds(self) -> float:
        """Between two looks, which somebody waits for."""
        return min(look_seconds(self._store, _LOOK_SECONDS), _LOOK_SECONDS_MAX)

    def head(self, topology: str) -> Commit:
        """The last commit of a topology."""
        return self._head(topology)

    def appended(self, topology: str, commit: Commit) -> Reach | None:
        """How far a commit and all before it appended to depots; None while that is not done.

        After a rollback as far as the depots go: what was appended before stands there.
        """
        names = self._deployment.topologies[topology].own_targets
        module = self._deployment.module
        chains = {
            name: SegmentChain(depot_folder(self._store.root, module, name), None, None)
            for name in names
        }
        owed = {rows.depot for rows in commit.appends} & {*names}
        reach = commit.delivered
        for name, chain in chains.items():
            if name not in owed and not commit.timeline:
                continue
            chain.refresh()
            ends = dict(enumerate(chain.end_offsets()))
            marks = chain.producers().marks(topology_producer(module, topology), 0)
            done = [each for each in marks if (each.epoch, each.sequence) >= _number(commit)]
            if name in owed and not done:
                return None
            exact = [each for each in done if (each.epoch, each.sequence) == _number(commit)]
            if exact and not commit.timeline:
                ends = {part: end for part, _, end in exact[0].offsets}
            reach = further(reach, {name: ends})
        return reach

    def _name_of(self, each: Awaited) -> str:
        deployment = self._deployment
        own = each.module in {"", deployment.module}
        name = each.depot if own else f"{each.module}.{each.depot}"
        if name not in (deployment.depots if own else deployment.mirrors):
            raise ReceiptError(
                f"the receipt is of depot {each.depot!r} of module {each.module!r}, which module "
                f"{deployment.module!r} does not read",
                hint=f"read module {each.module!r}, or one that mirrors the depot",
            )
        return name


class _Followed:
    """A topology of another process, as those who wait see it."""

    def __init__(self, waiting: ConnectedWaiting, name: str, deployed: TopologyDeployment) -> None:
        self.depots = tuple(deployed.depots)
        self._waiting = waiting
        self._name = name
        self._deployed = deployed

    def reads(self, depot: str, ends: Mapping[int, int]) -> bool:
        began = dict(enumerate(self._deployed.starts.get(depot, ())))
        return any(end > began.get(part, 0) for part, end in ends.items())

    def passed(self, depot: str, ends: Mapping[int, int], left: float) -> tuple[int, Reach]:
        until = time.monotonic() + left
        while True:
            commit = self._waiting.head(self._name)
            done = dict(enumerate(commit.ends().get(depot, self._deployed.starts.get(depot, ()))))
            if all(done.get(part, 0) >= end for part, end in ends.items()):
                reach = self._waiting.appended(self._name, commit)
                if reach is not None:
                    return commit.id, reach
            if time.monotonic() >= until:
                raise WaitTimeoutError(
                    f"topology {self._name!r} did not come to the records waited for in time",
                    hint="look at the topology's status where the module runs",
                    processed=commit.processed,
                )
            time.sleep(self._waiting.look_seconds)


def _number(commit: Commit) -> tuple[int, int]:
    """Under which number a commit's rows are appended."""
    return commit.timeline, commit.id


def wanted_of(
    receipts: Sequence[Receipt | Awaited | str], name_of: Callable[[Awaited], str]
) -> Reach:
    """Up to where each depot is to be processed for all of some receipts.

    Args:
        receipts: What to wait for.
        name_of: The name under which the module knows the depot of one; it may refuse it.

    Raises:
        ReceiptError: When there is none, or one is no receipt.
    """
    if not receipts:
        raise ReceiptError(
            "there is no receipt to wait for",
            hint="give what append returned; wait_idle() waits for all there is",
        )
    wanted: Reach = {}
    for each in map(awaited, receipts):
        wanted = further(wanted, {name_of(each): dict(each.ends)})
    return wanted
