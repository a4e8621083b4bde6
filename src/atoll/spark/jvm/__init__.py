"""Java, and the lives of Spark's JVM in this process."""
