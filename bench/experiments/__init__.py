"""Experiments whose tables and plots the documentation shows: ``bench/experiments.py``."""
