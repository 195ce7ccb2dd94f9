"""Trains one Keras model on the nodes of a Spark cluster, and tells which way to split the work."""

__version__ = "0.1.0"
