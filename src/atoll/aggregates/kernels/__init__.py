"""The numeric side of the aggregates, over numpy and Arrow; imported when rows arrive."""
