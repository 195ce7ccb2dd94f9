"""Paths and file systems, sources, the prepared data set, atomic publishing. Never imports TensorFlow.

Where to read first: `manifest` (what a prepared data set is), `prepared` (how nodes read it), `prepare` (how Spark
makes it), `row_ids` (the arithmetic under the order of rows).
"""
