"""Rows on a node: their order, where they are held, and which rows the weights have seen.

Read first `order` (integers in, integers out), then `feed`.
"""
