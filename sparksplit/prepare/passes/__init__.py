"""Passes over all rows, as Spark jobs: rows are numbered, counted, cut into splits, fitted on and dealt into lanes."""
