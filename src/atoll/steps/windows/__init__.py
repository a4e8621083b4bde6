"""Watermarks and windows of event time, and the aggregates over windows."""
