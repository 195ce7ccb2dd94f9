"""Rows on a node: which come when, where they are held, and what was seen of them.

Read first `order` (integers in, integers out), then `feed`.
"""
