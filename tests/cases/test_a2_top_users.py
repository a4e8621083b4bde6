"""A2: a top-three list, fed by the changes of each user's total."""

from __future__ import annotations

import atoll
from atoll import List, Map, Struct, agg, path


def make_module(shape):
    """Totals by user, and a list of the three largest."""
    module = atoll.Module("top-users")
    purchases = module.depot(
        "purchases",
        "user_id long, cents long",
        partition_by="user_id",
        partitions=shape.partitions,
    )
    mb = module.microbatch("topusers", vnode_count=shape.vnodes)
    total_spend = mb.pstate("total_spend", Map(int, int))
    top_spenders = mb.pstate("top_spenders", List(Struct(user_id=int, total=int)))

    totals = mb.source(purchases).aggregate(total_spend["user_id"], agg.sum("cents"))
    totals.changes().aggregate(
        top_spenders,
        agg.top_n(3, by="new", columns={"user_id": "user_id", "total": "new"}, id="user_id"),
    )
    return module


def test_top_users(run, shape):
    """In exact order, before and after a user overtakes."""
    run.deploy(shape.example("top_users.py") or make_module(shape)).cut()
    state = run.app.pstate("top_spenders")
    purchases = [(0, 300), (1, 200), (2, 100), (3, 100), (4, 400)]
    run.app.depot("purchases").append([{"user_id": user, "cents": c} for user, c in purchases])
    run.app.topology("topusers").wait_processed(5)
    top = [(each["user_id"], each["total"]) for each in state.get()]
    assert top == [(4, 400), (0, 300), (1, 200)]

    run.disturb()
    run.app.depot("purchases").append([{"user_id": 3, "cents": 250}])
    run.app.topology("topusers").wait_processed(6)
    state = run.app.pstate("top_spenders")
    top = [(each["user_id"], each["total"]) for each in state.get()]
    assert top == [(4, 400), (3, 350), (0, 300)]
    assert state.select(path.all().field("user_id")) == [4, 3, 0]
