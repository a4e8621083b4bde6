"""Steps of Spark's that bring rows to tasks, one per file."""
