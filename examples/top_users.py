"""The users who spent most: totals per user, and from their changes a list of the best three."""

import atoll
from atoll import List, Map, Struct, agg

module = atoll.Module("top-users")
purchases = module.depot("purchases", "user_id long, cents long", partition_by="user_id")

mb = module.microbatch("topusers")
total_spend = mb.pstate("total_spend", Map(int, int))
top_spenders = mb.pstate("top_spenders", List(Struct(user_id=int, total=int)))

totals = mb.source(purchases).aggregate(total_spend["user_id"], agg.sum("cents"))
totals.changes().aggregate(
    top_spenders,
    agg.top_n(3, by="new", columns={"user_id": "user_id", "total": "new"}, id="user_id"),
)
