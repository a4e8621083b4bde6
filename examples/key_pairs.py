"""Counts of pairs, nested by their first key, and a global sum: the smallest whole module."""

import atoll
from atoll import Map, agg

module = atoll.Module("key-pairs")
pairs = module.depot("pairs", "k string, k2 string", partition_by="k")
numbers = module.depot("numbers", "v long")

mb = module.microbatch("mb")
pair_counts = mb.pstate("pair_counts", Map(str, Map(str, int)))
global_sum = mb.pstate("global_sum", int, initial=0)

mb.source(pairs).aggregate(pair_counts["k"]["k2"], agg.count())
mb.source(numbers).aggregate(global_sum, agg.sum("v"))
