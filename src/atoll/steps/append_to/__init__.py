"""Append rows to a depot: ``stream.append_to(alerts)``."""
