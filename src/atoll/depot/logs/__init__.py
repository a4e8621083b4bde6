"""Depots whose records lie in logs that others keep, such as topics of Kafka."""
