"""Write the Parquet files of a prepared data set: whole lanes, with one row group per block.

The same code runs on Spark's executors and, for arrays in memory, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from hdfs_io import filesystem
from hdfs_io.errors import InputError, RunError, SparksplitError, using
from sparksplit.dataset import feature_scaling, plan, row_ids
from sparksplit.dataset.description import WEIGHT, FittedPreprocessing, LabelSpec, TensorPreprocessing, TensorSpec
from sparksplit.dataset.feature_spec import Feature
from sparksplit.dataset.label_sums import LabelSums
from sparksplit.dataset.manifest import OF_WEIGHTS, Manifest, SplitFacts
from sparksplit.dataset.statistics import Moments, numbers, offset_and_scale

ROW_ID = "row_id"
LABEL = "label"
OF_LABEL = ""
"""The label's key among statistics. Any name could be a column's name."""
CHANGED = "the input changed while it was read, or a DataFrame gives other rows when Spark computes it again"


@dataclass(frozen=True)
class Layout:
    """The columns of a data set's files, and how rows are grouped in them."""

    tensors: Sequence[TensorSpec]
    label: LabelSpec | None
    keep: Sequence[str]
    block_rows: int
    by_feature: bool = False
    """Whether each value of a tensor has its own statistics."""
    by_block: bool = True
    """Whether statistics are kept for each block, so that their last bits do not depend on the files."""
    features: Sequence[Feature] = ()
    """If the tensors have features: statistics are kept for each value of the number and date features."""
    by_label: bool = False
    """Whether each value of the label has statistics."""
    fits: bool = True
    """Whether features are fitted on the training rows. A training value without a logarithm is then an error. All
    other such values count as missing.
    """

    @classmethod
    def of(cls, manifest: Manifest) -> Layout:
        """Return the layout of a prepared data set, without the columns to keep."""
        return cls(manifest.tensors, manifest.label, (), manifest.block_rows, features=manifest.features)

    @property
    def schema(self) -> pa.Schema:
        """row_id as int64, a binary column for each tensor, the label, text columns to keep."""
        fields = [pa.field(ROW_ID, pa.int64(), nullable=False)]
        fields += [pa.field(tensor.name, pa.binary(), nullable=False) for tensor in self.tensors]
        if self.label is not None:
            kind = pa.binary() if self.label.shape else pa.from_numpy_dtype(self.label.numpy_dtype)
            fields.append(pa.field(LABEL, kind, nullable=False))
        return pa.schema(fields + [pa.field(name, pa.string()) for name in self.keep])

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, without the columns to keep."""
        label = 0 if self.label is None else self.label.row_bytes
        return 8 + label + sum(tensor.row_bytes for tensor in self.tensors)

    def for_rows(self, rows: int) -> Layout:
        """Return the layout for a data set of `rows` rows."""
        features = sum(len(moments.count) for moments in self.moments().values())
        return replace(self, by_block=plan.by_block(rows, self.block_rows, features))

    def label_sums(self) -> LabelSums:
        """Return empty sums for the label's classes or numbers."""
        return LabelSums(self.label, self.tensors)

    def moments(self) -> dict[str, Moments]:
        """Return empty statistics for every tensor, and for the label if it is scaled."""
        by_name = {tensor.name: Moments(self._measured(tensor)) for tensor in self.tensors}
        if self.by_label and self.label is not None:
            by_name[OF_LABEL] = Moments(self.label.values)
        return by_name

    def _measured(self, tensor: TensorSpec) -> int:
        """Return how many of a tensor's values have their own statistics; 1: one for all values together."""
        if self.features:
            return feature_scaling.width(feature_scaling.measured(self.features, tensor.name)) or 1
        return tensor.features if self.by_feature else 1

    def in_units(self, tensor: TensorSpec, rows: npt.NDArray[Any], split: str) -> npt.NDArray[Any]:
        """Return the values for statistics: the rows of a tensor [n, *shape], or its number and date features in their
        units [n, values].
        """
        features = feature_scaling.measured(self.features, tensor.name)
        if not features:
            return rows
        values = feature_scaling.in_units(features, rows)
        return values if self.fits and split == "train" else np.where(values == -np.inf, np.nan, values)

    def statistics(self, moments: dict[str, Moments]) -> dict[str, Moments]:
        """Return `moments` by column for number and date features, and by tensor otherwise.

        Raise InputError if a feature's statistics are not finite.
        """
        features = {name: feature_scaling.measured(self.features, name) for name in moments}
        by_name = {name: of_tensor for name, of_tensor in moments.items() if not features[name]}
        for name, members in features.items():
            by_name |= feature_scaling.by_feature(members, moments[name])
        return by_name


@dataclass
class FileFacts:
    """The facts about a written file, for the driver."""

    split: str
    first_lane: int
    path: str
    bytes: int = 0
    offset: int = 0
    """Rows of the first lane in earlier files"""
    lanes: list[tuple[int, int, int]] = field(default_factory=list)
    """(lane, rows, first row group) of each lane with rows"""
    crc32: list[int] = field(default_factory=list)
    checksum: int = 0
    weights: int = 0
    """Checksum of the rows' weights"""
    label: dict[str, Any] = field(default_factory=dict)
    """`LabelSums` of the rows, as JSON"""
    moments: list[dict[str, Any]] = field(default_factory=list)
    """By tensor: one entry for each block, or one for all blocks"""
    same: list[int] = field(default_factory=list)
    """Ids (as int64) that several rows have"""


class LaneFile:
    """Writes one Parquet file. Lanes come in ascending order, each lane's rows in (unsigned) order of row_id.

    It holds at most one block in memory besides the given batch. The file's folder must exist: a task that outlives its
    job must not make the removed folder again.
    """

    def __init__(self, folder: str, facts: FileFacts, layout: Layout) -> None:
        self._layout, self._facts = layout, facts
        self._schema = layout.schema
        path = filesystem.join(folder, facts.path)
        self._path = path
        target, inner = filesystem.resolve(path)
        # LZ4 reads as fast as uncompressed data and halves most data. Pages of binary rows gain nothing from
        # dictionaries, minima or maxima.
        try:
            with using(path, "cannot be written"):
                self._writer = pq.ParquetWriter(
                    inner,
                    self._schema,
                    filesystem=target,
                    compression="lz4",
                    use_dictionary=list(layout.keep),
                    write_statistics=False,
                    store_schema=True,
                )
        except BaseException:
            filesystem.remove(path)
            raise
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._moments = layout.moments()
        self._last: tuple[int, int] | None = None
        self._position = facts.offset
        self._sums = layout.label_sums()

    def write(self, lane: int, rows: pa.Table) -> None:
        """Append `rows` (columns as in the layout's schema) to `lane`."""
        lanes = self._facts.lanes
        if not lanes or lanes[-1][0] != lane:
            self._flush()
            self._position = 0 if lanes else self._facts.offset
            lanes.append((lane, 0, len(self._facts.crc32)))
        known, count, first = lanes[-1]
        lanes[-1] = (known, count + rows.num_rows, first)
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        if self._pending_rows >= self._room():
            self._flush(whole_blocks=True)

    def _room(self) -> int:
        """Return how many rows of the current lane are missing until the end of a block."""
        return self._layout.block_rows - self._position % self._layout.block_rows

    def close(self) -> FileFacts:
        """Close the file and return its facts."""
        self._flush()
        with using(self._path, "cannot be written"):
            self._writer.close()
        facts = self._facts
        facts.bytes = filesystem.size(self._path)
        facts.label = self._sums.to_json()
        if not self._layout.by_block:
            self._add_moments()
        return facts

    def _add_moments(self) -> None:
        self._facts.moments.append({name: moments.to_json() for name, moments in self._moments.items()})
        self._moments = self._layout.moments()

    def abort(self) -> None:
        """Remove the file."""
        self._pending = []
        # Report the first error. A full disk may have no room for the file's end either.
        with suppress(OSError, SparksplitError):
            self._writer.close()
        with suppress(OSError, SparksplitError):
            filesystem.remove(self._path)

    def _flush(self, whole_blocks: bool = False) -> None:
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        start = 0
        while rows.num_rows - start >= (self._room() if whole_blocks else 1):
            block = rows.slice(start, self._room())
            self._block(block)
            self._position += block.num_rows
            start += block.num_rows
        rest = rows.slice(start) if start < rows.num_rows else None
        self._pending = [] if rest is None else [rest]
        self._pending_rows = 0 if rest is None else rest.num_rows

    def _block(self, rows: pa.Table) -> None:
        block = rows.combine_chunks()
        ids = values_of(block.column(ROW_ID), np.dtype(np.int64))
        arrays, weight = [ids], None
        self._note_same(ids)
        self._facts.checksum = (self._facts.checksum + row_ids.row_checksum(row_ids.unsigned(ids))) % 2**64
        for tensor in self._layout.tensors:
            values = tensor_of(block.column(tensor.name), tensor)
            arrays.append(values)
            weight = values if tensor.name == WEIGHT else weight
            self._moments[tensor.name].update(self._layout.in_units(tensor, values, self._facts.split))
        if weight is not None:
            weights = row_ids.weights_checksum(row_ids.unsigned(ids), weight)
            self._facts.weights = (self._facts.weights + weights) % 2**64
        if self._layout.label is not None:
            label = label_of(block.column(LABEL), self._layout.label)
            arrays.append(label)
            if self._layout.by_label:
                self._moments[OF_LABEL].update(label)
            self._sums.update(label, weight)
        self._facts.crc32.append(crc32(arrays))
        if self._layout.by_block:
            self._add_moments()
        with using(self._path, "cannot be written"):
            self._writer.write_table(block, row_group_size=block.num_rows)

    def _note_same(self, ids: npt.NDArray[np.int64]) -> None:
        """Record ids that repeat the previous id of the current lane. `ids` come next in the lane."""
        lane = self._facts.lanes[-1][0]
        again = ids[1:][ids[1:] == ids[:-1]].tolist()
        if self._last == (lane, int(ids[0])):
            again.append(int(ids[0]))
        self._facts.same += again
        self._last = lane, int(ids[-1])


def crc32(arrays: Iterable[npt.NDArray[Any]]) -> int:
    """Return the CRC-32 of the arrays' bytes, one after the other."""
    crc = 0
    for array in arrays:
        crc = isal_zlib.crc32(array.data, crc)
    return crc


def single_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array, without a copy if it already is one."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def values_of(column: pa.ChunkedArray, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a view of a column of numbers without nulls: `dtype` [rows]."""
    array = single_chunk(column)
    return np.frombuffer(array.buffers()[1], dtype=dtype, count=len(array), offset=array.offset * dtype.itemsize)


def tensor_of(column: pa.ChunkedArray, tensor: TensorSpec) -> npt.NDArray[Any]:
    """Return a view of a binary column as the tensor's dtype [rows, *shape].

    Raise ValueError if a row does not have the tensor's number of bytes.
    """
    array = single_chunk(column)
    rows = len(array)
    _, offsets, values = array.buffers()
    if rows == 0:
        return np.zeros((0, *tensor.shape), dtype=tensor.numpy_dtype)
    ends = np.frombuffer(offsets, dtype=np.int32, count=rows + 1, offset=array.offset * 4)
    # Check each row: if one is too long and another too short, the rows in between would get their neighbours' bytes.
    if (ends[1:] - ends[:-1] != tensor.row_bytes).any():
        raise ValueError(f"a row of tensor {tensor.name} does not have {tensor.row_bytes} bytes, as it must")
    if values is None:
        return np.zeros((rows, *tensor.shape), dtype=tensor.numpy_dtype)
    flat = np.frombuffer(values, dtype=tensor.numpy_dtype, count=rows * tensor.values, offset=int(ends[0]))
    return flat.reshape(rows, *tensor.shape)


def binary_column(rows: npt.NDArray[Any], tensor: TensorSpec) -> pa.Array:
    """Return the binary column for `rows` [n, *shape]: little-endian bytes, copied only if `rows` has another layout.

    Raise ValueError for 2 GiB or more in one batch.
    """
    values = np.ascontiguousarray(rows, dtype=tensor.numpy_dtype)
    if len(rows) * tensor.row_bytes >= 2**31:
        raise ValueError(f"more than 2 GiB of {tensor.name} in one batch")
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(tensor.row_bytes)
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def label_of(column: pa.ChunkedArray, label: LabelSpec) -> npt.NDArray[Any]:
    """Return a view of the label's column: its dtype [rows, *shape]. Raise ValueError for rows of another size."""
    return tensor_of(column, label) if label.shape else values_of(column, label.numpy_dtype)


def label_column(labels: npt.NDArray[Any], label: LabelSpec) -> pa.Array:
    """Return the label's column for `labels` [n, *shape]."""
    return binary_column(labels, label) if label.shape else pa.array(labels)


def merge_split(
    facts: Iterable[FileFacts], layout: Layout, lanes: int, label_counts: list[int] | None = None
) -> tuple[SplitFacts, dict[str, Moments]]:
    """Return the manifest's entry for a split from the facts of its files, and the statistics to fit on, merged in lane
    order: by tensor, or by feature (see `Layout.statistics`).

    label_counts: rows of each class, if a row has one class

    Raise InputError for a tensor whose statistics are not finite. Raise RunError if the files do not continue each
    other.
    """
    lane_rows, size, count, moments = [0] * lanes, 0, 0, layout.moments()
    checksum = weights = 0
    sums = layout.label_sums()
    for file in sorted(facts, key=lambda file: (file.first_lane, file.offset)):
        for place, (lane, rows, _) in enumerate(file.lanes):
            if lane_rows[lane] != (0 if place else file.offset):
                raise RunError(
                    f"{file.path}: begins at row {file.offset} of its lane, not {lane_rows[lane]}: {CHANGED}"
                )
            lane_rows[lane] += rows
        count, size = count + 1, size + file.bytes
        checksum, weights = (checksum + file.checksum) % 2**64, (weights + file.weights) % 2**64
        for part in file.moments:
            for name, state in part.items():
                moments[name].merge(Moments.from_json(state))
        sums.add(file.label)
    by_name = layout.statistics(moments)
    statistics = {name: moment.whole() for name, moment in by_name.items()}
    for name, whole in statistics.items():
        if not np.isfinite([whole.mean, whole.std]).all():
            what = f"tensor {name}" if name != OF_LABEL else LABEL
            raise InputError(
                f"{what}: values from {whole.min:g} to {whole.max:g} are too large for a standard deviation in float64"
            )
    statistics.pop(OF_LABEL, None)
    weighted = any(tensor.name == WEIGHT for tensor in layout.tensors)
    if weighted:
        statistics[OF_WEIGHTS] = moments[WEIGHT].whole()
    split = SplitFacts(
        rows=sum(lane_rows),
        checksum=checksum,
        weights_checksum=weights if weighted else None,
        lane_rows=lane_rows,
        statistics=statistics,
        label_counts=label_counts if sums.counts is None else sums.counts.tolist(),
        **sums.facts(),
        files=count,
        bytes=size,
    )
    return split, by_name


def fit(moments: dict[str, Moments], scale: str, by: str, impute: bool = False) -> FittedPreprocessing:
    """Return the preprocessing fitted on the training split's `moments`, for tensors without features.

    scale: see `offset_and_scale`
    by: one pair of numbers for the whole tensor, or one for each feature
    impute: replace missing values by their feature's mean even if the training split has no missing values. If the
        training split has some, they are always replaced
    """
    tensors = {}
    for name, moment in moments.items():
        if name in (OF_LABEL, WEIGHT):
            continue
        whole = moment.whole()
        low, high, mean, std = moment.min, moment.max, moment.mean, moment.std
        if by == "tensor":
            low, high, mean, std = (np.array([value]) for value in (whole.min, whole.max, whole.mean, whole.std))
        offset, factor = offset_and_scale(low, high, mean, std, scale)
        filling = numbers(moment.mean) if impute or moment.missing else None
        tensors[name] = TensorPreprocessing(offset=numbers(offset), scale=numbers(factor), impute=filling)
    return FittedPreprocessing(tensors=tensors)


def fit_label(moments: dict[str, Moments], label: LabelSpec | None) -> LabelSpec | None:
    """Return the label with its scaling: each of its values to mean 0 and standard deviation 1, over the rows of
    `moments`.

    Return the label unchanged if `moments` has no statistics of it. A constant is only shifted.
    """
    of_label = moments.get(OF_LABEL)
    if of_label is None or label is None:
        return label
    offset, scale = offset_and_scale(of_label.min, of_label.max, of_label.mean, of_label.std, "standard")
    return label.model_copy(update={"offset": numbers(offset), "scale": numbers(scale)})
