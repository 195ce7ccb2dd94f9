"""The prepared data set: its manifest, lanes, blocks, row ids, labels and statistics, reading and writing.

Where to read first: `manifest` (what a prepared data set is), `prepared` (how nodes read it), `row_ids` (the arithmetic
under the order of rows).
"""
