"""Producers: an append that comes again is stored once."""
