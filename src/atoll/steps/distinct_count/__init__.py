"""Which values are new: what ``agg.count_distinct`` is made of."""
