"""Definitions of runtimes: their grammar, and everything that can be wrong with one."""
