"""Rows counted before any is written: by split, by label, bad ones; and what follows from the counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hdfs_io.cut import Cut
from hdfs_io.labels import MAX_CLASSES, check_number_of_labels, classified
from hdfs_io.lane_files import CHANGED, LABEL
from hdfs_io.manifest import SPLITS, Manifest
from hdfs_io.numbering import ROWS
from hdfs_io.sources.base import Source
from hdfs_io.sources.identify import Identify
from hdfs_io.sources.parse import SPLIT
from sparksplit.base.errors import RunError

if TYPE_CHECKING:
    from hdfs_io.sources.kept import Kept

_GROUPED = 1 << 17
"""Counts that a task collects before it adds up those of the same label."""


@dataclass
class Counts:
    """Good rows by split and, where labels are classes, by label."""

    rows: dict[str, int]
    labels: dict[str, dict[Any, int]]

    def drop(self, unseen: Mapping[str, int]) -> None:
        """Leave out as many rows of each split."""
        for name, rows in unseen.items():
            self.rows[name] -= rows


def count(keys: Kept, source: Source, identify: Identify, cut: Cut, labels: bool = True) -> Counts:
    """Count the rows of `keys` (part, content hash, label, kept columns, `cut`) by split and, if `labels`, label.

    Raises InputError where there are too many labels to be classes.
    """
    from pyspark.sql import functions as sql

    by_label = labels and classified(source.label_kind)
    counted = [SPLIT, LABEL] if by_label else [SPLIT]
    kinds = {SPLIT: pa.int32(), LABEL: pa.string() if source.label_kind == "text" else pa.int64(), ROWS: pa.int64()}
    stage = _Count(identify, cut, pa.schema([(name, kinds[name]) for name in (*counted, ROWS)]))
    parts = keys.through(stage)
    # More groups than this have too many labels: a label's rows may lie in every split.
    found = parts.groupBy(*counted).agg(sql.sum(ROWS)).limit(len(SPLITS) * MAX_CLASSES + 1).collect()
    if by_label:
        check_number_of_labels(len({row[LABEL] for row in found}), source.place)
    counts = Counts(dict.fromkeys(SPLITS, 0), {name: {} for name in SPLITS})
    for row in found:
        split, rows = SPLITS[row[SPLIT]], row[-1]
        counts.rows[split] += rows
        if by_label:
            counts.labels[split][row[LABEL]] = rows
    return counts


@dataclass(frozen=True)
class _Count:
    """Adds up, in a task, the rows of each split and label; see `Stage`."""

    identify: Identify
    cut: Cut
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending: list[pa.Table] = []
        waiting = _GROUPED
        for found in self.identify(batches):
            columns = [pa.array(found.splits(self.cut))]
            if LABEL in self.schema.names:
                columns.append(found.rows.column(LABEL))
            columns.append(pa.array(np.ones(len(found.ids), np.int64)))
            pending.append(self._added(pa.Table.from_arrays(columns, schema=self.schema)))
            if sum(table.num_rows for table in pending) >= waiting:
                pending = [self._added(pa.concat_tables(pending))]
                waiting = max(_GROUPED, 2 * pending[0].num_rows)
        if pending:
            yield from self._added(pa.concat_tables(pending)).to_batches(max_chunksize=10_000)

    def _added(self, table: pa.Table) -> pa.Table:
        names = self.schema.names[:-1]
        added = table.group_by(names).aggregate([(ROWS, "sum")])
        return added.rename_columns(self.schema.names).cast(self.schema)


def without_rows(rows: dict[str, int], has_test: bool) -> str:
    """Why there is nothing to train on. has_test: whether the test rows come from other files."""
    dealt = {name: rows[name] for name in SPLITS[1:] if rows[name] and not (has_test and name == "test")}
    if not dealt:
        return "has no rows to train on"
    found = ", ".join(f"{count} for {name}" for name, count in dealt.items())
    return f"none of its {sum(dealt.values())} rows fell to the training split ({found}); lower {' and '.join(dealt)}"


def check_counts(counted: dict[str, int], manifest: Manifest) -> None:
    """Raise RunError where other rows were written than were counted before: they were computed twice, differently."""
    for name, rows in counted.items():
        if manifest.splits[name].rows != rows:
            raise RunError(f"{name}: {rows} rows were counted, {manifest.splits[name].rows} were written: {CHANGED}")
