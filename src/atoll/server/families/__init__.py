"""Metric families of one subject each, for the scrape."""
