"""Joins whose rows change and vanish with their partners: outer, semi, anti, and by time."""
