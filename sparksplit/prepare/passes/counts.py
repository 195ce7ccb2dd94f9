"""Counts rows by split and label before any row is written, and checks the counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.base.errors import InputError, RunError
from sparksplit.dataset import row_ids
from sparksplit.dataset.description import WEIGHT, TensorSpec
from sparksplit.dataset.labels import MAX_CLASSES, check_number_of_labels, classified, parsed_numbers, wide
from sparksplit.dataset.lane_files import CHANGED, LABEL, tensor_of
from sparksplit.dataset.manifest import SPLITS, Manifest
from sparksplit.prepare.passes.cut import Cut
from sparksplit.prepare.passes.identify import Identified, Identify
from sparksplit.prepare.passes.numbering import ROWS
from sparksplit.prepare.passes.parse import SPLIT, weight_names
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.prepare.source import Source
from sparksplit.spark.job_names import described

if TYPE_CHECKING:
    from sparksplit.prepare.passes.kept import Kept

CHECKSUM, WIDE = "checksum", "wide"
_SUMS = (ROWS, CHECKSUM, WIDE)
_GROUPED = 1 << 17
"""Largest number of counts that a task collects before it adds up the counts of equal labels."""


class Group(NamedTuple):
    """Rows of a split and label. checksum: of their ids, as in the ledger, plus that of their weights"""

    rows: int
    checksum: int


@dataclass
class Counts:
    """Good rows by split and label. If labels are not classes, all rows have the label None.

    wide: whether some labels are numbers that float32 does not hold
    """

    groups: dict[str, dict[Any, Group]]
    wide: bool = False

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each split."""
        return {name: sum(group.rows for group in groups.values()) for name, groups in self.groups.items()}

    @property
    def checksums(self) -> dict[str, int]:
        """Checksum of each split: of the rows' ids, plus that of their weights."""
        return {name: sum(group.checksum for group in groups.values()) % 2**64 for name, groups in self.groups.items()}

    @property
    def labels(self) -> dict[str, dict[Any, int]]:
        """Rows of each label, by split."""
        by_split = {
            name: {label: group.rows for label, group in groups.items()} for name, groups in self.groups.items()
        }
        return {name: {label: rows for label, rows in of.items() if label is not None} for name, of in by_split.items()}

    def keep(self, known: Collection[Any]) -> None:
        """Leave out all labels except the `known` ones."""
        for name, groups in self.groups.items():
            self.groups[name] = {label: group for label, group in groups.items() if label in known}


@described("count")
def count(keys: Kept, source: Source, identify: Identify, cut: Cut, labels: bool = True) -> Counts:
    """Count the rows of `keys` by split and, if `labels`, by label.

    keys: part, content hash, label, kept columns and `cut`

    Raise InputError if there are too many labels for classes.
    """
    from pyspark.sql import functions as sql

    by_label = labels and classified(source.label_kind)
    counted = [SPLIT, LABEL] if by_label else [SPLIT]
    kinds = {SPLIT: pa.int32(), LABEL: pa.string() if source.label_kind == "text" else pa.int64()}
    sums = [(name, pa.int64()) for name in _SUMS]
    schema = pa.schema([*((name, kinds[name]) for name in counted), *sums])
    weight = next((tensor for tensor in source.tensors if tensor.name == WEIGHT), None)
    named = None if weight is None else (weight_names(source)[0], weight)
    stage = _Count(identify, cut, schema, labels and source.label_kind == "number", named)
    parts = keys.through(stage)
    # As decimals, because an overflow is an error in some sessions.
    added = sql.sum(ROWS), sql.sum(sql.col(CHECKSUM).cast("decimal(20)")), sql.sum(WIDE)
    # More groups than this are too many labels, because a label's rows may lie in every split.
    groups = parts.groupBy(*counted).agg(*added).limit(len(SPLITS) * MAX_CLASSES + 1).collect()
    if by_label:
        check_number_of_labels(len({row[LABEL] for row in groups}), source.place)
    counts = Counts({name: {} for name in SPLITS}, any(row[-1] for row in groups))
    for row in groups:
        counts.groups[SPLITS[row[SPLIT]]][row[LABEL] if by_label else None] = Group(row[-3], int(row[-2]) % 2**64)
    return counts


@dataclass(frozen=True)
class _Count:
    """Adds up the rows of each split and label, in a task; see `Stage`.

    numbers: whether labels are numbers. weight: the column of the rows' weights and its tensor; None without weights.
    """

    identify: Identify
    cut: Cut
    schema: pa.Schema
    numbers: bool
    weight: tuple[str, TensorSpec] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending: list[pa.Table] = []
        waiting = _GROUPED
        for batch in self.identify(batches):
            columns = [pa.array(batch.splits(self.cut))]
            if LABEL in self.schema.names:
                columns.append(batch.rows.column(LABEL))
            columns += [pa.array(np.ones(len(batch.ids), np.int64)), pa.array(row_ids.signed(self._hashes(batch)))]
            columns.append(pa.array(self._wide(batch)))
            pending.append(self._added(pa.Table.from_arrays(columns, schema=self.schema)))
            if sum(table.num_rows for table in pending) >= waiting:
                pending = [self._added(pa.concat_tables(pending))]
                waiting = max(_GROUPED, 2 * pending[0].num_rows)
        if pending:
            yield from self._added(pa.concat_tables(pending)).to_batches(max_chunksize=10_000)

    def _hashes(self, batch: Identified) -> row_ids.U64:
        """Return each row's part of the checksum [rows]."""
        hashes = row_ids.mix64(batch.ids)
        if self.weight is None:
            return hashes
        name, tensor = self.weight
        weights = tensor_of(pa.chunked_array([batch.rows.column(name)]), tensor)
        return hashes + row_ids.weight_hashes(batch.ids, weights)

    def _wide(self, batch: Identified) -> npt.NDArray[np.int64]:
        """Return how many labels of a batch are numbers that float32 does not hold. The count is at the first row
        [rows]."""
        counted = np.zeros(len(batch.ids), np.int64)
        if self.numbers and len(counted):
            counted[0] = wide(parsed_numbers(batch.rows.column(LABEL))).sum()
        return counted

    def _added(self, table: pa.Table) -> pa.Table:
        names = self.schema.names[: -len(_SUMS)]
        added = table.group_by(names).aggregate([(name, "sum") for name in _SUMS])  # modulo 2^64
        return added.rename_columns(self.schema.names).cast(self.schema)


def without_rows(rows: dict[str, int], has_test: bool) -> str:
    """Return why there are no rows to train on. has_test: whether the test rows come from other files"""
    dealt = {name: rows[name] for name in SPLITS[1:] if rows[name] and not (has_test and name == "test")}
    if not dealt:
        return "has no rows to train on"
    listed = ", ".join(f"{count} for {name}" for name, count in dealt.items())
    return f"none of its {sum(dealt.values())} rows fell to the training split ({listed}); lower {' and '.join(dealt)}"


def check_counts(counted: Counts, manifest: Manifest, checksums: bool = True) -> None:
    """Raise RunError if the written rows differ from the counted rows. Spark then computed the rows twice, with
    different results.

    checksums: whether the rows still have the ids that they had when they were counted
    """
    for name, rows in counted.rows.items():
        split = manifest.splits[name]
        if split.rows != rows:
            raise RunError(f"{name}: {rows} rows were counted, but {split.rows} were written: {CHANGED}")
        checksum = (split.checksum + (split.weights_checksum or 0)) % 2**64
        if checksums and checksum != counted.checksums[name]:
            raise RunError(f"{name}: the rows that were written are not those that were counted: {CHANGED}")


def left_between(config: PreprocessConfig, every: int, rows: Mapping[str, int]) -> int:
    """Return how many rows were left out at the boundaries of the cut. every: number of all rows. rows: rows of each
    split

    Raise InputError if rows were left out and a wanted split has none.
    """
    between, cut = every - sum(rows.values()), config.cut
    asked = {"validation": config.validation or cut.validation_from, "test": config.test or cut.test_from, "train": 1}
    for name, wanted in asked.items():
        if between and wanted and not rows[name]:
            raise InputError(
                f"{config.input.place}: has no windows for {name}: {between:,} were left out, because their "
                "labels overlap the next split. Give this split more time, or lower input.windows.horizon"
            )
    return between
