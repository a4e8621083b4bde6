"""Running a Spark job of an attempt: what it is told, what ends it, what its failure means."""
