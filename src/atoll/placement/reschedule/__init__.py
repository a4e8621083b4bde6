"""Reschedules: what is asked for, checked, and planned before anything runs elsewhere."""
