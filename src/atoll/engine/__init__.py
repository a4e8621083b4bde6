"""What runs inside a task: programs, actors, attempts. Free of Spark."""
