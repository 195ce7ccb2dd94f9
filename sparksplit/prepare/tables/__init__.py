"""Rows with columns, of files that Spark reads and of DataFrames: from cells to features, labels and weights."""
