"""Raw data to a prepared data set on Spark: all work on rows runs in executors, the driver sees only their facts.

parse (sources) -> row_id, lane and split -> bad rows, labels -> one sort by file, lane and row_id -> Parquet by whole
lanes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hdfs_io import filesystem, lane_files
from hdfs_io.arrays import from_arrays
from hdfs_io.config import InputConfig, PreprocessConfig
from hdfs_io.cut import Cut
from hdfs_io.lane_files import LABEL, ROW_ID, FileFacts, LaneFile, Layout
from hdfs_io.manifest import SPLITS, Manifest, SourceFacts, SplitFacts
from hdfs_io.preprocessing import TOKENS, FittedPreprocessing, LabelSpec
from hdfs_io.sources.base import BadRow, Source
from hdfs_io.sources.identify import rows_digest, with_row_ids
from hdfs_io.sources.parse import BAD, CONTENT, LANE, SPLIT, bad_rows, keep_names, parse, tensor_names
from hdfs_io.spark_batches import bounded_batches, rows_per_batch
from sparksplit import __version__
from sparksplit.base.errors import InputError, RunError
from sparksplit.base.task_facts import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["from_arrays", "prepare"]

BAD_ROWS = "bad_rows"
_MAX_CLASSES = 100_000
_MANY_CLASSES, _ROWS_PER_CLASS = 100, 2
"""Whole numbers with at least this many distinct values, and fewer rows than this for each, are a quantity."""


def prepare(spark: SparkSession, config: PreprocessConfig, source: Source, folder: str) -> tuple[Manifest, str | None]:
    """Write the prepared data set of `source` into `folder`, which the caller publishes.

    Returns its manifest and, where the source has no files that would show a change, the `rows_digest`.

    Raises InputError for bad rows or files, for labels that the training split does not have, and for a source without
    rows.
    """
    from pyspark import StorageLevel

    cut = Cut() if source.deals else Cut.of(config, ("test",) if source.has_test else ())
    probe = Layout(source.tensors, _label_spec(source, None), source.keep, 1)
    with bounded_batches(spark, rows_per_batch(probe.row_bytes)):
        # Numbered once: the cut needs the numbers, and the rows of each label are counted split by split.
        rows = with_row_ids(parse(spark, source), len(source.keep), config.lanes, cut)
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = _count(rows, source)
            # Collected only where there are some: that sorts, and most data has none.
            bad = bad_rows(spark, rows, config.input.max_bad_rows) if counts.bad else []
            if counts.rows["train"] == 0:
                raise InputError(f"{config.input.place}: {_without_rows(counts.rows, source.has_test)}")
            layout = Layout(
                source.tensors,
                _label_spec(source, _classes(counts, source, config.input)),
                source.keep,
                lane_files.block_rows(probe.row_bytes, config.block_size),
                by_feature=config.scaling_by == "feature" or config.input.missing == "mean",
            )
            plan = _plan(counts.rows, layout, config)
            facts = _write(rows.where(f"{BAD} is null"), folder, layout, plan)
            rows_hash = None if source.files else rows_digest(rows, source)
        finally:
            rows.unpersist()
    write_bad_rows(folder, bad)
    manifest = _manifest(facts, layout, config, source)
    check_counts(counts.rows, manifest)
    manifest.write(folder)
    manifest.description.write(folder)
    return manifest, rows_hash


def check_counts(counted: dict[str, int], manifest: Manifest) -> None:
    """Raise RunError where other rows were written than were counted before: they were computed twice, differently."""
    for name, rows in counted.items():
        if manifest.splits[name].rows != rows:
            raise RunError(
                f"{name}: {rows} rows were counted, {manifest.splits[name].rows} were written: the input changed "
                "meanwhile, or a DataFrame gives other rows when Spark computes it again"
            )


def _label_spec(source: Source, classes: list[str] | None) -> LabelSpec | None:
    if source.label_kind is None:
        return None
    if source.label_kind == "number":
        return LabelSpec(dtype="float32", kind="number")
    if source.label_kind in TOKENS:
        tensor = source.tensors[0]
        return LabelSpec(dtype=tensor.dtype, shape=tensor.shape, classes=source.vocabulary, kind=source.label_kind)
    return LabelSpec(dtype="int64", classes=classes, kind=source.label_kind)


def _without_rows(rows: dict[str, int], has_test: bool) -> str:
    """Why there is nothing to train on. has_test: whether the test rows come from other files."""
    dealt = {name: rows[name] for name in SPLITS[1:] if rows[name] and not (has_test and name == "test")}
    if not dealt:
        return "has no rows to train on"
    found = ", ".join(f"{count} for {name}" for name, count in dealt.items())
    return f"none of its {sum(dealt.values())} rows fell to the training split ({found}); lower {' and '.join(dealt)}"


@dataclass
class Counts:
    """Rows by split and, where labels are classes, by label."""

    rows: dict[str, int]
    labels: dict[str, dict[Any, int]]
    bad: int = 0


def _count(rows: DataFrame, source: Source) -> Counts:
    from pyspark.sql import functions as sql

    classified = source.label_kind in ("integer", "text")
    keys = [SPLIT, LABEL] if classified else [SPLIT]
    good = sql.col(BAD).isNull().alias("good")
    # More groups than this have too many labels: a label's rows may lie in every split. Bad rows have no label.
    found = rows.groupBy(good, *keys).count().limit(2 * len(SPLITS) * _MAX_CLASSES + 1).collect()
    if classified and len({row[LABEL] for row in found if row["good"]}) > _MAX_CLASSES:
        raise InputError(
            f"{source.place}: more than {_MAX_CLASSES} different labels; is the label a number to predict"
            " (input.label_type: number)?"
        )
    counts = Counts(dict.fromkeys(SPLITS, 0), {name: {} for name in SPLITS})
    for row in found:
        if not row["good"]:
            counts.bad += row["count"]
            continue
        split = SPLITS[row[SPLIT]]
        counts.rows[split] += row["count"]
        if classified:
            counts.labels[split][row[LABEL]] = row["count"]
    return counts


def _classes(counts: Counts, source: Source, config: InputConfig) -> list[str] | None:
    """The sorted distinct labels of the training split; None where labels are not classes.

    Raises InputError for labels that the training split does not have, and for whole numbers that were not declared to
    be classes and cannot be meant as classes.
    """
    if source.label_kind not in ("integer", "text"):
        return None
    known = counts.labels["train"]
    taken_for_classes = source.label_kind == "integer" and config.label_type == "auto"
    hint = "; are the labels numbers to predict (input.label_type: number)?" if taken_for_classes else ""
    different, rows = len(set().union(*counts.labels.values())), sum(counts.rows.values())
    if taken_for_classes and different >= _MANY_CLASSES and rows < _ROWS_PER_CLASS * different:
        raise InputError(
            f"{source.place}: {different} different labels in {rows} rows{hint} (input.label_type: integer"
            " takes them for classes)"
        )
    for name in SPLITS[1:]:
        unknown = sorted(label for label in counts.labels[name] if known and label not in known)
        if unknown:
            raise InputError(
                f"{source.place}: label {unknown[0]!r} ({counts.labels[name][unknown[0]]} rows of the {name}"
                f" split) does not occur in the training split{hint}"
            )
    return [str(label) for label in sorted(known)]


@dataclass(frozen=True)
class Plan:
    """Which file each lane of each split goes to; files are numbered split by split."""

    files: list[tuple[str, int, str]]
    """(split, first lane, path)"""
    first: dict[str, int]
    """Number of a split's first file"""
    per_file: dict[str, int]
    """Lanes in each file of a split"""


def _plan(rows: dict[str, int], layout: Layout, config: PreprocessConfig) -> Plan:
    plan = Plan([], {}, {})
    for split in SPLITS:
        per_file = lane_files.lanes_per_file(rows[split], layout.row_bytes, config.lanes, config.file_size)
        plan.first[split], plan.per_file[split] = len(plan.files), per_file
        for first in range(0, config.lanes if rows[split] else 0, per_file):
            plan.files.append((split, first, lane_files.file_name(split, first, per_file, config.lanes)))
    return plan


def _write(rows: DataFrame, folder: str, layout: Layout, plan: Plan) -> list[FileFacts]:
    """Write the files in executors, and give those of the successful attempts their final names."""
    from pyspark.sql import functions as sql

    for split in {split for split, _, _ in plan.files}:
        filesystem.make_folder(filesystem.join(folder, split))
    file = sql.lit(None)
    for split, first in plan.first.items():
        number = sql.lit(first) + sql.floor(sql.col(LANE) / sql.lit(plan.per_file[split]))
        file = sql.when(sql.col(SPLIT) == SPLITS.index(split), number).otherwise(file)
    unsigned = sql.col(ROW_ID).bitwiseXOR(sql.lit(-(2**63)))
    placed = rows.withColumn("file", file.cast("int")).repartition(len(plan.files), "file")
    label = [LABEL] if layout.label is not None else []
    columns = [*tensor_names(len(layout.tensors)), *label, *keep_names(len(layout.keep))]
    ordered = placed.sortWithinPartitions("file", LANE, unsigned, CONTENT[1]).select("file", LANE, ROW_ID, *columns)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[FileFacts]:
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = 0 if context is None else context.taskAttemptId()
        return write_sorted(batches, folder, layout, plan, attempt)

    facts = facts_of(ordered, write, FileFacts)
    kept: dict[str, set[str]] = {}
    for fact in facts:
        temporary, fact.path = fact.path, _final_name(fact.path)
        filesystem.rename(filesystem.join(folder, temporary), filesystem.join(folder, fact.path))
        kept.setdefault(fact.split, set()).add(fact.path.rpartition("/")[2])
    for split, names in kept.items():
        # What failed attempts have left behind.
        for name in filesystem.listing(filesystem.join(folder, split)):
            if name not in names:
                filesystem.remove(filesystem.join(folder, split, name))
    return facts


def write_sorted(
    batches: Iterable[pa.RecordBatch], folder: str, layout: Layout, plan: Plan, attempt: int
) -> Iterator[FileFacts]:
    """Write rows sorted by (file, lane, row_id), under the attempt's names, and give the facts of each file."""
    classes = _class_values(layout)
    current, writer = -1, None
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            files, lanes = (batch.column(index).to_numpy(zero_copy_only=False) for index in (0, 1))
            rows = _rows(batch, layout, classes)
            starts = np.flatnonzero(np.diff(files, prepend=-1) | np.diff(lanes, prepend=-1))
            for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
                if files[start] != current:
                    if writer is not None:
                        yield writer.close()
                    current = int(files[start])
                    split, first, path = plan.files[current]
                    writer = LaneFile(folder, FileFacts(split, first, _attempt_name(path, attempt)), layout)
                assert writer is not None
                writer.write(int(lanes[start]), rows.slice(start, stop - start))
        if writer is not None:
            facts, writer = writer.close(), None
            yield facts
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


def _rows(batch: pa.RecordBatch, layout: Layout, classes: pa.Array | None) -> pa.Table:
    columns = batch.columns[2:]
    if classes is not None:
        place = 1 + len(layout.tensors)
        columns[place] = pc.index_in(columns[place], value_set=classes).cast(pa.int64())
    return pa.table(columns, schema=layout.schema)


def _class_values(layout: Layout) -> pa.Array | None:
    """The values to look raw labels up in; None where labels are stored as they are."""
    if layout.label is None or layout.label.classes is None or layout.label.kind in TOKENS:
        return None
    if layout.label.kind == "integer":
        return pa.array([int(name) for name in layout.label.classes], type=pa.int64())
    return pa.array(layout.label.classes, type=pa.string())


def _attempt_name(path: str, attempt: int) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{attempt}"


def _final_name(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[1:].rpartition('.')[0]}"


def write_bad_rows(folder: str, bad: list[BadRow]) -> None:
    """Write bad_rows/ into `folder`: path, row, reason and text of each, as Parquet; nothing where there are none."""
    if not bad:
        return
    place = filesystem.join(folder, BAD_ROWS)
    filesystem.make_folder(place)
    target, inner = filesystem.resolve(filesystem.join(place, "bad_rows.parquet"))
    columns = {"path": pa.string(), "row": pa.int64(), "reason": pa.string(), "text": pa.string()}
    rows = [{name: getattr(row, name) for name in columns} for row in bad]
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(columns.items())), inner, filesystem=target)


def _manifest(facts: list[FileFacts], layout: Layout, config: PreprocessConfig, source: Source) -> Manifest:
    splits: dict[str, SplitFacts] = {}
    fitted = FittedPreprocessing()
    for name in SPLITS:
        of_split = [fact for fact in facts if fact.split == name]
        splits[name], moments = lane_files.merge_split(of_split, layout, config.lanes)
        if name == "train":
            impute = config.input.missing == "mean"
            fitted = lane_files.fit(moments, config.scaling, config.scaling_by, impute)
    return Manifest(
        config_hash=config.config_hash(),
        created_by=f"sparksplit {__version__}",
        source=SourceFacts(format=config.input.format, files=list(source.files)),
        lanes=config.lanes,
        block_rows=layout.block_rows,
        tensors=list(layout.tensors),
        label=layout.label,
        keep=list(layout.keep),
        preprocessing=fitted,
        splits=splits,
    )
