"""Steps in queries: over whole tables, without Spark, and without writing anything."""
