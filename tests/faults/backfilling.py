"""A PState that an update adds and fills, in a process that may die at any call; and its recount.

Everything here runs in children.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from interpose import Call, Interposer
from scenario import say

import atoll
from atoll import agg, path, start
from atoll.cluster.app import App
from atoll.errors import FillingError

PAST = 90
MORE = 10
BATCH = {"depot.microbatch.max.records": 20, "topology.microbatch.empty.sleep.time.millis": 5}


def version(number: int) -> atoll.Module:
    """The first version, or the one with more PStates: a count, and one with hidden state."""
    module = atoll.Module("shop")
    sales = module.depot("sales", "item long, shop long", partition_by="shop", partitions=2)
    mb = module.microbatch("mb", vnode_count=3, options=BATCH)
    rows = mb.source(sales, start_from=start.beginning())
    rows.aggregate(mb.pstate("by_shop", dict[int, int])["shop"], agg.count())
    if number == 2:
        by_item = mb.pstate("by_item", dict[int, int], backfill=True)
        rows.aggregate(by_item["item"], agg.count())
        shops = mb.pstate("shops", dict[int, int], backfill=True)
        rows.aggregate(shops["item"], agg.count_distinct("shop"))
    return module


def records(first: int, count: int) -> list[dict[str, int]]:
    """Some records."""
    return [{"item": n % 7, "shop": n % 5} for n in range(first, first + count)]


def begin(root: str) -> None:
    """The first version has read the past."""
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(version(1))
        app.wait(app.depot("sales").append(records(0, PAST)))


def fill(root: str, number: int | None = None, after: int | None = None) -> None:
    """Update, go on appending, wait until it has joined, and append once more; or die before.

    At the call of that number, or at so many calls after it has joined.
    """
    dying = number
    with Interposer(root) as calls:

        def tell(call: Call) -> None:
            if call.number == dying:
                say("dying", [call.kind, call.path])

        calls.on_call = tell
        if number is not None:
            calls.kill_at(number)
        with atoll.LocalCluster(root, engine="inline") as cluster:
            app = cluster.deploy(version(2))
            for turn in range(3):
                app.depot("sales").append(records(PAST + turn * MORE, MORE))
            app.topology("mb").wait_filled()
            if after is not None:
                dying = calls.kill_after(after)
            app.wait(app.depot("sales").append(records(PAST + 3 * MORE, MORE)))
            say("calls", calls.calls)
            say("state", _state(app))


def check(root: str) -> None:
    """Whatever it died of: it is being filled and says so, or has joined; then it is right."""
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(version(2))
        try:
            app.pstate("by_item").get(0)
            say("found", "joined")
        except FillingError:
            say("found", "filling")
        app.topology("mb").wait_filled()
        app.topology("mb").wait_processed(sum(app.depot("sales").end_offsets()))
        say("state", _state(app))


def _state(app: App) -> dict[str, Any]:
    """Whether every PState is what a plain fold over the depot gives."""
    depot = app.depot("sales")
    rows = [
        row
        for part, end in enumerate(depot.end_offsets())
        for row in depot.read(part, 0, end).to_pylist()
    ]
    pairs = {(row["item"], row["shop"]) for row in rows}
    wanted = {
        "by_shop": Counter(row["shop"] for row in rows),
        "by_item": Counter(row["item"] for row in rows),
        "shops": Counter(item for item, _ in pairs),
    }
    found = {name: dict(app.pstate(name).select(path.all())) for name in wanted}
    assert found == {name: dict(each) for name, each in wanted.items()}, (found, wanted)
    return {"records": len(rows)}


def as_json(text: str) -> Any:
    """What was said."""
    return json.loads(text)
