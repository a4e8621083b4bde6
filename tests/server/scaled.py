"""A real module on workers of every state, and each request that its cluster refuses.

Shared by the tests of the routes and of the command line.
"""

from contextlib import contextmanager

from atoll import LocalCluster, Map, Module, agg
from atoll.placement.reschedule.change import UnitChange
from atoll.placement.reschedule.text import format_plan

MODULE = "key-pairs"
PAIRS = 2
"""The fragment that counts pairs: a hash fragment of two vnodes, on units 0 and 1."""
FOLLOWER = 3
"""It updates the same PState, so it runs where PAIRS runs."""
SUM = 4
"""A singleton, on unit 0."""


def build(vnode_count, name=MODULE):
    """Sums of pairs, updated in two steps, and a global sum; a value below 0 fails for ever."""
    module = Module(name)
    pairs = module.depot("pairs", "k long, v long", partition_by="k")
    options = {"topology.microbatch.retry.max.attempts": 1_000}
    mb = module.microbatch("mb", vnode_count=vnode_count, options=options)
    sums = mb.pstate("sums", Map(int, int))
    total = mb.pstate("total", int, initial=0)

    def add(row, sums):
        if row.v < 0:
            raise ValueError("below nothing")
        sums[row.k] = sums.get(row.k, 0) + row.v
        yield {"k": row.v, "v": 1}

    def also(row, sums):
        sums[row.k] = sums.get(row.k, 0) + row.v

    stream = mb.source(pairs)
    stream.process(add, key="k", states=[sums], emits="k long, v long").process(
        also, key="k", states=[sums]
    )
    stream.aggregate(total, agg.sum("v"))
    return module


@contextmanager
def running(folder, vnode_count=2):
    """The cluster and the deployed module; with more vnodes it uses all units, cordoned ones too.

    Worker 0 has the units 0, 1 and 2; worker 1, cordoned, 3 and 4; worker 2, gone, had 5.
    """
    with LocalCluster(folder, engine="inline", parallelism=3) as cluster:
        app = cluster.deploy(build(vnode_count))
        cluster.add_worker("spare", 2)
        cluster.add_worker("short", 1)
        app.cluster.cordon([1])
        cluster.lose_worker("short")
        yield cluster, app


REFUSED = {
    "stale revision": {"changes": {PAIRS: UnitChange((2,), (0,))}, "behind": 1},
    "cordoned worker": {"changes": {PAIRS: UnitChange((3,), (0,))}},
    "conflicting changes": {
        "changes": {PAIRS: UnitChange((), (0,)), FOLLOWER: UnitChange((), (1,))},
        "resolve": True,
    },
    "unknown fragment": {"changes": {99: UnitChange((2,), (0,))}},
    "follows another": {"changes": {FOLLOWER: UnitChange((2,), (0,))}},
    "unit without actor": {"changes": {PAIRS: UnitChange((), (2,))}},
    "unknown unit": {"changes": {PAIRS: UnitChange((77,), (0,))}},
    "unknown unit, as its worker has gone": {"changes": {PAIRS: UnitChange((5,), (0,))}},
    "unit occupied": {"changes": {PAIRS: UnitChange((1,), (0,))}},
    "nothing left": {"changes": {PAIRS: UnitChange((), (0, 1))}},
    "singleton": {"changes": {SUM: UnitChange((1,), ())}},
    "more units than vnodes": {"changes": {PAIRS: UnitChange((2,), ())}},
}
"""By problem, behind a comma the case: a request to the module of two vnodes."""


def body(asked, revision):
    """The request as the service takes it, with its changes by fragment."""
    return {
        "changes": {
            str(fragment): {"added": list(each.added), "removed": list(each.removed)}
            for fragment, each in asked["changes"].items()
        },
        "revision": revision - asked.get("behind", 0),
        "resolve": asked.get("resolve", False),
    }


def options(asked, revision):
    """The request as options of the command line."""
    found = ["--plan", format_plan(asked["changes"])]
    found += ["--revision", revision - asked.get("behind", 0)]
    return [*found, "--resolve"] if asked.get("resolve") else found


def in_python(asked, revision):
    """The request as arguments of ``reschedule``."""
    return {
        "changes": asked["changes"],
        "revision": revision - asked.get("behind", 0),
        "resolve": asked.get("resolve", False),
    }
