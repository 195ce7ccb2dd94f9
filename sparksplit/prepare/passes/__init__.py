"""Passes over all rows, as Spark jobs: they number, count and cut rows, fit on rows, and deal rows into lanes."""
