"""Rows with columns, from files that Spark reads and from DataFrames: cells become features, labels and weights."""
