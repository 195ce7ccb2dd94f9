"""Rows on a node: which come when, where they are held, and which have been seen.

Read first `order` (integers in, integers out), then `feed`.
"""
