"""Metrics of parts of the service, asked for at each scrape."""
