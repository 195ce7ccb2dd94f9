"""Everything about Spark: the session and its JVM, masters, executors, packages, and the meaning of Spark's errors."""
