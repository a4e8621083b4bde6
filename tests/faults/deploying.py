"""Two versions of a module that share as much as they differ in, and a recount of their state.

The second adds a topology, a depot and a column, migrates values, and removes a topology with its
state: whatever a deployment can do. Each record is counted by the version that processes it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Self

import msgspec

import atoll
from atoll import Map, agg, start
from atoll.cluster import cluster as cluster_module
from atoll.cluster.app import App
from atoll.cluster.deploy import last_run, lives, loops, versions
from atoll.cluster.engines import InlineEngine
from atoll.cluster.local import LocalCluster
from atoll.cluster.scaling.load_watch import LoadWatch
from atoll.cluster.scaling.revisions import Revisions
from atoll.cluster.scaling.scaling import Scaling
from atoll.depot.depot import Depot
from atoll.microbatch.control.tuning import SettingsLog
from atoll.microbatch.loop import TopologyLoop
from atoll.storage.local import LocalStore
from atoll.views.deployment import latest_deployment

__all__ = ["NAME", "REMOVED", "Deploying", "Tripwire", "encoded", "version"]

NAME = "shop"
REMOVED = ("topology:side",)
FIRST = start.beginning()


def version(number: int) -> atoll.Module:
    """The first version, or the second."""
    second = number == 2
    module = atoll.Module(NAME)
    columns = "k string, v long" + (", note string" if second else "")
    orders = module.depot("orders", columns, partition_by="k", partitions=2)
    log = module.depot("log", "k string, v long")
    mb = module.microbatch("mb", vnode_count=2)
    sums = mb.pstate("sums", Map(str, int))
    if second:
        sums.migrated("same", same)
    added = mb.source(orders, start_from=FIRST).map(
        lambda row: {"k": row.k, "v": row.v + number}, emits="k string, v long"
    )
    added.aggregate(sums["k"], agg.sum("v"))
    added.append_to(log)
    other = module.microbatch("more" if second else "side", vnode_count=2)
    seen = other.pstate("more_seen" if second else "seen", Map(str, int))
    other.source(orders, start_from=FIRST).aggregate(seen["k"], agg.count())
    if second:
        module.depot("extra", "v long")
    return module


def same(value: int) -> int:
    """A migration that keeps every value."""
    return value


class Deploying:
    """A cluster whose deployments are disturbed, and what its state has to be.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sums: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.count = 0
        self.committed: Counter[str] = Counter()
        self.cluster = LocalCluster(root, engine="inline")
        self.cluster.deploy(version(1))
        self.append(1)

    @property
    def app(self) -> App:
        """The module as it runs."""
        return self.cluster.apps[NAME]

    def append(self, number: int, *, wait: bool = True) -> None:
        """Append a record that a version shall process."""
        self.count += 1
        row = {"k": f"k{self.count % 5}", "v": self.count}
        self.app.depot("orders").append([row])
        self.sums[row["k"]] += row["v"] + number
        self.seen[row["k"]] += 1
        if wait:
            self.wait()

    def last_by_either(self) -> None:
        """Take it that the last record was processed by whichever version did so."""
        self.wait()
        key = f"k{self.count % 5}"
        found = self.app.pstate("sums").get(key)
        assert found in (self.sums[key], self.sums[key] + 1)
        self.sums[key] = found

    def wait(self) -> None:
        """Until all records are processed."""
        for name in self.app.topologies():
            self.app.topology(name).wait_processed(self.count)

    def update(self, remove: tuple[str, ...] = REMOVED) -> None:
        """Deploy the second version."""
        self.cluster.update(version(2), remove=remove)

    def check(self, number: int) -> None:
        """Hold that a version runs, processes, and has the state that it must have."""
        assert not self.cluster.stopped
        self.append(number)
        app = self.app
        assert app.status()["state"] == "running"
        names = {"mb", "side"} if number == 1 else {"mb", "more"}
        states = {name: each["state"] for name, each in app.status()["topologies"].items()}
        assert states == dict.fromkeys(names, "running")
        for name in names:  # it goes on after its last commit: nothing was deleted and done again
            committed = app.topology(name).status()["committed"]
            assert committed > self.committed[name]
            self.committed[name] = committed
        assert app.pstate("sums").get() == dict(self.sums)
        counts = "seen" if number == 1 else "more_seen"
        assert app.pstate(counts).get() == dict(self.seen)
        assert sum(app.depot("log").end_offsets()) == self.count
        deployed = latest_deployment(LocalStore(self.root), NAME)
        assert deployed is not None
        assert set(deployed.topologies) == names
        app.cluster.cordon([0])
        app.cluster.uncordon([0])

    def restart(self, number: int) -> None:
        """End the process, as far as a test can, and start that version in another one."""
        self.cluster.close()
        self.cluster = LocalCluster(self.root, engine="inline")
        self.cluster.deploy(version(number))
        self.check(number)

    def close(self) -> None:
        """End."""
        self.cluster.close()


class TripError(OSError):
    """What a tripped call raises, of the kind that no code expects."""


class Tripwire:
    """Counts the calls of a deployment to everything that works for it, and lets one raise.

    Only those of the thread that made it count. ``kind`` is what is raised.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.at = 0
        self.fired = False
        self.kind: Callable[[], BaseException] = lambda: TripError(5, "tripped")
        self._thread = threading.get_ident()
        self._armed = False

    @contextmanager
    def armed(self, at: int, kind: Callable[[], BaseException]) -> Iterator[None]:
        """Let the call of that number raise; 0: none."""
        self.calls, self.at, self.kind, self.fired = [], at, kind, False
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def __enter__(self) -> Self:
        """Wrap everything."""
        self._undo: list[tuple[Any, str, Any]] = []
        for owner, names in _WATCHED.items():
            for name in names:
                known = vars(owner)[name]
                self._undo.append((owner, name, known))
                setattr(owner, name, self._wrapped(f"{owner.__name__}.{name}", known))
        return self

    def __exit__(self, *_: object) -> None:
        """Put everything back."""
        for owner, name, known in self._undo:
            setattr(owner, name, known)

    def _wrapped(self, name: str, known: Any) -> Any:
        @wraps(known)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._armed and threading.get_ident() == self._thread:
                self.calls.append(name)
                if len(self.calls) == self.at:
                    self.fired = True
                    raise self.kind()
            return known(*args, **kwargs)

        return call


_WATCHED: dict[Any, tuple[str, ...]] = {
    LocalStore: ("create", "write", "settle", "read", "exists", "list", "delete", "sweep"),
    Depot: ("__init__", "close", "resolve_start", "on_append"),
    Revisions: ("latest", "change", "take_over", "stand"),
    SettingsLog: ("latest",),
    InlineEngine: ("schemas", "executor"),
    App: ("__init__", "add_topology", "start", "close", "prepare_update"),
    Scaling: ("close", "info"),
    LoadWatch: ("start", "close"),
    TopologyLoop: ("__init__", "get_ready", "close"),
    loops: (
        *("complete_rollback", "latest_commit", "settle_commit", "drop_orphans", "beginning"),
        *("known_checkpoints", "paused", "placement_of", "with_starts"),
    ),
    lives: (
        *("claim_epoch", "save_deployment", "delete_removed", "drop_stale_pins", "placed"),
        *("reinstate", "depot_spec", "with_depot_migrations", "known_ids", "latest_deployment"),
        *("refuse_other_processes", "described_partitioner"),
    ),
    last_run: ("save_deployment", "latest_deployment"),
    versions: (
        *("resolve_mirrors", "bind_topologies", "migrated", "bind_queries", "plan_changes"),
        *("depot_migrations", "try_migrations", "try_depot_migrations", "check_key_partitioners"),
        *("broken_mirrors", "placed", "fragment_specs", "mirrors_read", "resolve_start"),
    ),
    cluster_module: ("checked_version",),
}
"""What a deployment calls; ``TopologyLoop.start`` only sets an event, and cannot fail."""


def encoded(root: Path) -> bytes:
    """What the root says is deployed, but for the time."""
    found = latest_deployment(LocalStore(root), NAME)
    assert found is not None
    return msgspec.msgpack.encode(msgspec.structs.replace(found, deployed_at_ms=0))
