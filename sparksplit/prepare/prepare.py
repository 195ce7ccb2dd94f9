"""Prepares a data set on Spark. Executors do all work on rows; the driver sees only facts about them.

1. Parse the rows once, pack them and keep them.
2. Count bad rows, number equal rows, and count rows by split and label.
3. Fit a table's vocabularies and quantiles on the training rows. Plan lanes and files.
4. Compute row_id, split and file of each row. Shuffle the rows once, with a partition for each file.
5. Sort each file's rows by lane and row_id, in the task that writes the file as Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io import ending, filesystem
from sparksplit.base.errors import InputError
from sparksplit.base.version import __version__
from sparksplit.dataset import block_table, labels, lane_files, plan, row_ids
from sparksplit.dataset.description import TOKENS, FittedPreprocessing, LabelSpec
from sparksplit.dataset.feature_spec import Feature
from sparksplit.dataset.fitted import Fitted
from sparksplit.dataset.lane_files import FileFacts, Layout
from sparksplit.dataset.manifest import SPLITS, Manifest, SourceFacts, SplitFacts
from sparksplit.dataset.plan import Plan
from sparksplit.prepare import bad_rows, windows_config
from sparksplit.prepare.bad_rows import Limit
from sparksplit.prepare.cut_config import dependent
from sparksplit.prepare.passes import counts
from sparksplit.prepare.passes.counts import Counts
from sparksplit.prepare.passes.cut import Cut
from sparksplit.prepare.passes.cut_fit import fitted as fitted_cut
from sparksplit.prepare.passes.fit_features import Fitting, fitting
from sparksplit.prepare.passes.identify import Identify, Key, move_apart, rows_digest
from sparksplit.prepare.passes.kept import Kept
from sparksplit.prepare.passes.numbering import ROWS
from sparksplit.prepare.passes.parse import CONTENT, NUMBER, tensor_names, text_names
from sparksplit.prepare.passes.shuffle import FILE, Place, Writing, final_name
from sparksplit.prepare.passes.stored_passes import passes
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.prepare.source import Source
from sparksplit.spark.batches import bounded_batches, rows_per_batch
from sparksplit.spark.job_names import described
from sparksplit.spark.task_facts import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ID_BITS = 64
_RENAMES = 16
"""Renames at the same time, because each rename waits for the NameNode."""


def prepare(
    spark: SparkSession, config: PreprocessConfig, source: Source, folder: str, like: Fitted | None = None
) -> tuple[Manifest, str | None]:
    """Write the prepared data set of `source` into `folder`, which the caller publishes. like: what is already fitted

    Return the manifest, and the `rows_digest` if the source has no files that would show a change (otherwise None).

    Raise InputError for too many bad rows, damaged files, labels that the training split does not have, or no rows.
    """
    cut = Cut() if source.deals else Cut.of(config, ("test",) if source.has_test else ())
    config.check_label_scaling(source.label_kind)
    probe = Layout(source.tensors, _label_spec(source, None), source.keep, 1)
    batch_rows = rows_per_batch(max(probe.row_bytes, source.raw_bytes))
    with bounded_batches(spark, batch_rows), passes(spark, source, batch_rows) as kept:
        good, some, text_bytes = kept.count()
        tally = bad_rows.tally(kept.bad) if some else bad_rows.Tally()
        Limit.of(config.input).check(tally, source.good_rows(good))
        if not good:
            why = windows_config.said(source.left_out, ": ") + bad_rows.left_out(tally)
            raise InputError(f"{config.input.place}: has no rows to train on{why}")
        identify = replace(kept.identify(), bits=_ID_BITS)
        cut = replace(fitted_cut(cut, kept.rows.good, identify), reach=source.windows.reach if source.windows else 0)
        identify = replace(identify, left_out=cut.left_out)
        counted = counts.count(kept.rows, source, identify, cut)
        between = counts.left_between(config, good, counted.rows)
        if counted.rows["train"] == 0:
            raise InputError(f"{config.input.place}: {counts.without_rows(counted.rows, source.has_test)}")
        declared, unseen = config.input.label_type != "auto", config.unseen_labels
        if like is not None and source.label_kind is not None:
            label = like.description.label
            named = labels.fitted_labels(counted.labels, label, source.place, unseen)
            label = label.parsed if label is not None and counted.wide else label
        else:
            named = labels.labels_of(counted.labels, source.label_kind, source.place, declared=declared, unseen=unseen)
            label = _label_spec(source, named.classes, unseen == "unknown", counted.wide)
        if unseen == "drop" and named.unseen:
            values = labels.known_values(label)
            counted.keep([] if values is None else values.to_pylist())
            identify = replace(identify, labels=values)
        names = tensor_names(len(source.tensors)), text_names(source)
        fitted = fitting(source.table, source.tensors, kept.rows, identify, cut, names)
        layout = Layout(fitted.encoder.tensors, label, source.keep, 1, features=fitted.encoder.features)
        layout, lanes = _laid_out(layout, config, like, sum(counted.rows.values()))
        # The task that writes a file holds its rows in memory, with their kept texts.
        row_bytes = layout.row_bytes + (round(text_bytes) if source.keep else 0)
        where = Plan.of(counted.rows, row_bytes, lanes, config.file_size)
        place = Place.of(source, identify, cut, where, layout, fitted.encoder, batch_rows)
        facts, moved = _write(kept.rows, place, folder)
        bad_rows.write(kept.bad, tally, folder)
        rows_hash = None if source.files else rows_digest(kept.rows.good, kept.bad, source)
    left_out = {"unseen_labels": named.unseen, "bad_rows": dict(tally.counts)}
    left_out |= {} if source.windows is None else {"windows_left_out": {**source.left_out, "cut": between}}
    manifest = _manifest(facts, layout, config, source, where, counted, fitted).model_copy(update=left_out)
    if like is not None:
        manifest = manifest.model_copy(update={"preprocessing": like.description.preprocessing})
    for name in SPLITS:
        block_table.write(folder, name, (fact for fact in facts if fact.split == name))
    counts.check_counts(counted, manifest, checksums=not moved)
    manifest.write(folder)
    manifest.description.write(folder)
    return manifest, rows_hash


def _laid_out(layout: Layout, config: PreprocessConfig, like: Fitted | None, rows: int) -> tuple[Layout, int]:
    """Return (`layout` for this many rows, number of lanes)."""
    lanes = config.lanes or (like and like.lanes) or plan.lanes_for(rows, layout.row_bytes)
    block_rows = plan.block_rows(layout.row_bytes, plan.block_bytes(lanes, config.block_size))
    laid_out = replace(
        layout,
        block_rows=(like and like.block_rows) or block_rows,
        by_feature=config.scaling_by == "feature" or config.input.missing == "mean",
        by_label=config.scales_label(None if layout.label is None else layout.label.kind, bool(layout.features)),
        fits=like is None,
    )
    return laid_out.for_rows(rows), lanes


def _label_spec(
    source: Source, classes: list[str] | None, unknown: bool = False, wide: bool = True
) -> LabelSpec | None:
    """Return the label's spec. wide: whether some labels are numbers that float32 does not hold"""
    if source.label_kind is None:
        return None
    if source.label_kind == "number":
        shape = [] if (places := source.label_places) is None else [places]
        return LabelSpec(dtype="float64" if wide else "float32", kind="number", shape=shape)
    if source.label_kind in TOKENS:
        tensor = source.tensors[0]
        return LabelSpec(dtype=tensor.dtype, shape=tensor.shape, classes=source.vocabulary, kind=source.label_kind)
    return LabelSpec(dtype="int64", classes=classes, kind=source.label_kind, unknown=unknown)


@described("write")
def _write(rows: Kept, place: Place, folder: str) -> tuple[list[FileFacts], bool]:
    """Write the files in executors, and give the files of successful attempts their final names.

    Different rows may have equal ids. Their writer notices this, because sorted rows with equal ids are neighbours. All
    files are then written again, with other ids for these rows. This is rare (one in 40 sets of 10^9 rows), and a
    search before writing would be expensive.

    Return the facts of the files, and whether some rows got other ids.
    """
    for split, files in zip(SPLITS, place.plan.splits, strict=True):
        if files.files:
            filesystem.make_folder(filesystem.join(folder, split))
    while True:
        writing = Writing(folder, place, _offsets(rows, place))
        facts = facts_of(_by_file(rows, place), writing, FileFacts)
        same = {row_id for fact in facts for row_id in fact.same}
        if not same:
            break
        for fact in facts:
            filesystem.remove(filesystem.join(folder, fact.path))
        moved = move_apart(_named(rows, place.identify, same), place.identify)
        place = replace(place, identify=replace(place.identify, moved=moved))
    _rename(folder, facts)
    return facts, bool(place.identify.moved)


def _offsets(rows: Kept, place: Place) -> npt.NDArray[np.int64]:
    """Return, for each file, the rows of its first lane that are in earlier files: int64 [files].

    Rows are counted only if a lane lies in several files.
    """
    from pyspark.sql import functions as sql

    per_file = np.zeros(place.plan.files, np.int64)
    if place.plan.cuts_lanes:

        def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            mine = np.zeros(place.plan.files, np.int64)
            for some in place.identify(batches):
                mine += np.bincount(place.files(some), minlength=len(mine))
            files = np.flatnonzero(mine)
            yield pa.RecordBatch.from_arrays([pa.array(files), pa.array(mine[files])], [FILE, ROWS])

        parts = rows.map(counted, pa.schema([(FILE, pa.int64()), (ROWS, pa.int64())]))
        for file, count in parts.groupBy(FILE).agg(sql.sum(ROWS)).collect():
            per_file[file] = count
    return place.plan.offsets(per_file)


def _by_file(rows: Kept, place: Place) -> DataFrame:
    """Return the rows in chunks, with one partition for each file."""
    return rows.through(place).repartition(place.plan.files, FILE)


def _named(rows: Kept, identify: Identify, ids: set[int]) -> list[Key]:
    """Return the keys of the `rows` that have one of the `ids` (int64)."""

    def having(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = np.array(sorted(ids), np.int64)
        for batch in identify(batches):
            chosen = np.isin(row_ids.signed(batch.ids), wanted)
            columns = [*row_ids.signed(batch.content[chosen].T), batch.number[chosen]]
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], [*CONTENT, NUMBER])

    named = rows.map(having, pa.schema([(name, pa.int64()) for name in (*CONTENT, NUMBER)]))
    return [(row[0] % 2**64, row[1] % 2**64, row[2]) for row in named.collect()]


def _rename(folder: str, facts: list[FileFacts]) -> None:
    """Give the files of `facts` their final names, and remove the files of failed attempts."""
    kept: dict[str, set[str]] = {}
    renames = []
    for fact in facts:
        temporary, fact.path = fact.path, final_name(fact.path)
        renames.append((filesystem.join(folder, temporary), filesystem.join(folder, fact.path)))
        kept.setdefault(fact.split, set()).add(fact.path.rpartition("/")[2])
    context = copy_context()

    def rename(names: tuple[str, str]) -> None:
        context.copy().run(filesystem.rename, *names)

    with ThreadPoolExecutor(_RENAMES) as pool:
        try:
            for _ in pool.map(rename, renames):  # an error or a signal ends the queue
                pass
        except BaseException:
            ending.begin()  # before the pool waits for the renames that have begun
            raise
    for split, names in kept.items():
        for name in filesystem.listing(filesystem.join(folder, split)):
            if name not in names:
                filesystem.remove(filesystem.join(folder, split, name))


def _manifest(
    facts: list[FileFacts],
    layout: Layout,
    config: PreprocessConfig,
    source: Source,
    where: Plan,
    totals: Counts,
    fitted: Fitting,
) -> Manifest:
    splits: dict[str, SplitFacts] = {}
    numbers, label = FittedPreprocessing(), layout.label
    features: list[Feature] = []
    for name in SPLITS:
        of_split = [fact for fact in facts if fact.split == name]
        counted = labels.counted(totals.labels[name], layout.label)
        splits[name], moments = lane_files.merge_split(of_split, layout, where.lanes, counted)
        if name == "train" and source.table is not None:
            features = fitted.scaled(moments, config.scaling)
        elif name == "train":
            impute = config.input.missing == "mean"
            numbers = lane_files.fit(moments, config.scaling, config.scaling_by, impute)
        if name == "train":
            label = lane_files.fit_label(moments, label)
    return Manifest(
        config_hash=config.config_hash(),
        created_by=f"sparksplit {__version__}",
        source=SourceFacts(format=config.input.format, files=list(source.files)),
        lanes=where.lanes,
        block_rows=layout.block_rows,
        tensors=list(layout.tensors),
        label=label,
        label_name=source.label_name,
        keep=list(layout.keep),
        nulls=source.nulls,
        preprocessing=numbers,
        features=features,
        dependent=dependent(config.cut, windows=source.windows is not None, text=source.deals),
        windows=source.windows,
        exif=source.exif,
        splits=splits,
    )
