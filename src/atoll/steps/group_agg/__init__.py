"""Spark SQL's aggregates over the rows of a microbatch, run by Spark or, as folds, by tasks."""
