"""Turns columns of pyspark.ml's vectors, dense and sparse, into arrays of doubles, which all other code reads.

An array holds every value, so a row of a sparse vector is stored as large as a dense one.
"""

from __future__ import annotations

from dataclasses import replace

from sparksplit.prepare.tables.raw_frame import PLACE, RawFrame, by_place


def with_arrays(raw: RawFrame) -> RawFrame:
    """Return `raw` with an array<double> for each vector. A null vector becomes a null array."""
    vectors = {name for name, kind in raw.types if kind == "vector"}
    if not vectors:
        return raw
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import functions as sql

    names = raw.frame.columns
    columns = []
    for place, name in enumerate(names):
        column = sql.col(PLACE.format(place))
        # vector_to_array fails for null.
        columns.append(sql.when(column.isNotNull(), vector_to_array(column)) if name in vectors else column)
    return replace(raw, frame=by_place(raw.frame).select(*columns).toDF(*names))
