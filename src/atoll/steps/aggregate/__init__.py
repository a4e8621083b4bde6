"""Fold rows into a PState: ``stream.aggregate(totals["user"], agg.sum("price"))``."""
