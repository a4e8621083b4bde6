"""Brings what commits have for sinks to these: one thread per sink, apart from topologies."""
