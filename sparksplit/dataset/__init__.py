"""The prepared data set: manifest, lanes, blocks, row ids, labels and statistics; reading and writing.

Read first: `manifest` (contents of a prepared data set), `prepared` (how nodes read it), `row_ids` (the arithmetic
behind the order of rows).
"""
