"""Spark as sparksplit uses it: the session and its JVM, masters, executors, packages, and what Spark's errors mean."""
