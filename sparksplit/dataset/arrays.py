"""Make a prepared data set from arrays in memory, without Spark: for small data, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.version import __version__
from sparksplit.dataset import block_table, lane_files, plan, row_ids
from sparksplit.dataset.description import WEIGHT, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.dataset.labels import rounded, wide
from sparksplit.dataset.lane_files import LABEL, ROW_ID, FileFacts, LaneFile, Layout
from sparksplit.dataset.manifest import SPLITS, Manifest, Order, SourceFacts, SplitFacts
from sparksplit.dataset.plan import Plan
from sparksplit.dataset.prepared import PreparedDataSet

Array = npt.NDArray[Any]
SplitArrays = tuple[Array | Mapping[str, Array], Array | Sequence[str] | None]


def from_arrays(
    path: str,
    splits: Mapping[str, SplitArrays],
    *,
    lanes: int = 96,
    classes: int | Sequence[str] | None = None,
    scaling: str = "none",
    scaling_by: str = "tensor",
    label_scaling: str = "none",
    order: Order = "hash",
    block_size: int = 512 * 1024,
    file_size: int = 128 * 1024 * 1024,
    config_hash: str = "",
) -> PreparedDataSet:
    """Write the prepared data set `path` from NumPy arrays, with the row_ids and files that `preprocess` would give.

    Equal rows are numbered across train, validation and test, in this order, and within each split by their weights.
    `preprocess` numbers them before it cuts the splits.

    With `order="given"`, a row_id is the row's number, counted through train, validation and test. Mini-batch k of each
    epoch is then the rows kB to (k+1)B - 1 of the training split, on every number of nodes.

    splits: (x, y) for train, validation and test; a missing split is empty. x is an array [rows, ...], the tensor "x",
        or a mapping of tensor names to arrays. The tensor "weight" (float32 [rows], 0 or more) holds the rows' weights.
        y is [rows, ...]: integers or text (classes), floats (numbers), or None
    classes: the classes' names, or their number, if not all classes occur in the training split. Integer labels are
        then indices. Default: the sorted distinct labels of the training split
    scaling, scaling_by, label_scaling: as in the configuration of `preprocess`

    Replace a prepared data set that exists at `path`. Raise ValueError for arrays that do not fit together.
    """
    tensors, label = _specs(splits, classes)
    if label_scaling != "none" and (label is None or label.kind != "number"):
        raise ValueError("label_scaling needs float labels")
    probe = Layout(tensors, label, (), 1)
    layout = Layout(
        tensors,
        label,
        (),
        plan.block_rows(probe.row_bytes, plan.block_bytes(lanes, block_size)),
        scaling_by == "feature",
        by_label=label_scaling == "standard",
    )
    output = Output(path, config_hash, "preprocess")
    with output.claimed(overwrite=True), output.staging() as folder:
        written: dict[str, SplitFacts] = {}
        fitted = FittedPreprocessing()
        given = {name: _check(name, splits[name], layout) for name in SPLITS if name in splits}
        counts = [len(split) for split in given.values()]
        content = np.concatenate([split.content for split in given.values()])
        if order == "given":
            every = np.arange(len(content), dtype=np.uint64)
        else:
            by_weight = np.concatenate([split.by_weight for split in given.values()])
            numbers = row_ids.duplicate_numbers(content, np.repeat(np.arange(len(given)), counts), by_weight)
            every = row_ids.row_id(content[:, 0], numbers)
        ids = dict(zip(given, np.split(every, np.cumsum(counts)[:-1]), strict=True))
        rows = {name: len(given.get(name, ())) for name in SPLITS}
        layout = layout.for_rows(sum(rows.values()))
        where = Plan.of(rows, layout.row_bytes, lanes, file_size)
        for name in SPLITS:
            facts = []
            if rows[name]:
                by = ids[name] if order == "hash" else row_ids.spread(rows[name])
                facts = _write_split(folder, name, given[name], ids[name], by, layout, where)
            counted = _label_counts(given.get(name), label)
            written[name], moments = lane_files.merge_split(facts, layout, lanes, counted)
            if order == "given" and name in given:
                checksum = row_ids.content_checksum(ids[name], given[name].content)
                written[name] = written[name].model_copy(update={"content_checksum": checksum})
            block_table.write(folder, name, facts)
            if name == "train":
                fitted = lane_files.fit(moments, scaling, scaling_by)
                label = lane_files.fit_label(moments, label)
        manifest = Manifest(
            config_hash=config_hash,
            created_by=f"sparksplit {__version__}",
            source=SourceFacts(format="arrays", files=[]),
            lanes=lanes,
            block_rows=layout.block_rows,
            order=order,
            tensors=tensors,
            label=label,
            keep=[],
            preprocessing=fitted,
            splits=written,
            dependent="order" if order == "given" else None,  # neighbours may be alike, and lanes are no random groups
        )
        manifest.write(folder)
        manifest.description.write(folder)
    return PreparedDataSet(output.path, manifest)


def _inputs(x: Array | Mapping[str, Array]) -> dict[str, Array]:
    return dict(x) if isinstance(x, Mapping) else {"x": np.asarray(x)}


def _specs(
    splits: Mapping[str, SplitArrays], classes: int | Sequence[str] | None
) -> tuple[list[TensorSpec], LabelSpec | None]:
    unknown = set(splits) - set(SPLITS)
    if unknown or "train" not in splits:
        raise ValueError(f"splits must be train and, if wanted, validation and test (are {', '.join(splits)})")
    x, y = splits["train"]
    tensors = [
        TensorSpec(name=name, dtype=array.dtype.name, shape=list(array.shape[1:])) for name, array in _inputs(x).items()
    ]
    for tensor in tensors:
        if tensor.name.lower() in (ROW_ID, LABEL):
            raise ValueError(f"a tensor cannot be called {tensor.name}: the data set has a column of that name")
        if tensor.name == WEIGHT and tensor.shape:
            raise ValueError(f"tensor {WEIGHT}: must be one number a row, [rows] (is [rows, {str(tensor.shape)[1:]})")
    if y is None:
        return tensors, None
    labels = np.asarray(y)
    shape = list(labels.shape[1:])
    if labels.dtype.kind == "f":
        every = [rounded(np.asarray(given)) for _, given in splits.values() if given is not None]
        dtype = "float64" if any(wide(numbers).any() for numbers in every) else "float32"
        return tensors, LabelSpec(dtype=dtype, shape=shape, kind="number")
    kind = "integer" if labels.dtype.kind in "iub" else "text"
    if kind == "text" and shape:
        raise ValueError(
            f"text labels must be one per row (their shape is {shape}); for more, give class indices and `classes`"
        )
    if classes is None:
        names = [str(value) for value in np.unique(labels)]
    else:
        names = [str(value) for value in (range(classes) if isinstance(classes, int) else classes)]
    return tensors, LabelSpec(dtype="int64", shape=shape, classes=names, kind=kind)


@dataclass(frozen=True)
class _Split:
    """One split's checked arrays.

    tensors, label: as they are stored.
    content: hash of each row, uint64 [rows, 2].
    by_weight: the sort key of equal rows by weight, [rows]. `preprocess` sorts the weights' bytes in the same order.
    """

    tensors: list[Array]
    label: Array | None
    content: row_ids.U64
    by_weight: Array

    def __len__(self) -> int:
        return len(self.content)


def _check(name: str, rows: SplitArrays, layout: Layout) -> _Split:
    inputs = _inputs(rows[0])
    parts = []
    count = len(next(iter(inputs.values())))
    for tensor in layout.tensors:
        array = inputs.get(tensor.name)
        if array is None or list(array.shape[1:]) != tensor.shape or array.dtype.name != tensor.dtype:
            raise ValueError(f"{name}: tensor {tensor.name} must be {tensor.dtype} {tensor.shape} as in train")
        if len(array) != count:
            raise ValueError(f"{name}: tensor {tensor.name} has {len(array)} rows, but the first tensor has {count}")
        if tensor.name == WEIGHT and not (array >= 0).all():
            row = int(np.argmin(array >= 0))
            raise ValueError(f"{name}: tensor {WEIGHT}: row {row}: must be a number of 0 or more (is {array[row]})")
        if tensor.name == WEIGHT:
            array = array + array.dtype.type(0)  # -0 is 0
        parts.append(np.ascontiguousarray(array, dtype=tensor.numpy_dtype))
    hashed = [part for part, tensor in zip(parts, layout.tensors, strict=True) if tensor.name != WEIGHT and count]
    fixed = [part.reshape(count, -1).view(np.uint8).reshape(count, -1) for part in hashed]
    weights = [part for part, tensor in zip(parts, layout.tensors, strict=True) if tensor.name == WEIGHT]
    by_weight = weights[0].view(f">u{weights[0].itemsize}") if weights else np.zeros(count, np.uint32)
    index, text = None, None
    if layout.label is not None:
        if rows[1] is None or len(rows[1]) != count:
            raise ValueError(f"{name}: must have {count} labels, one for each row")
        content, text, index = _labels(name, np.asarray(rows[1]), layout.label)
        if content is not None and count:
            fixed.append(np.ascontiguousarray(content).view(np.uint8).reshape(count, -1))
    if count == 0:
        return _Split(parts, index, np.zeros((0, 2), np.uint64), by_weight)
    return _Split(parts, index, row_ids.content_hash(np.concatenate(fixed, axis=1), text), by_weight)


def _write_split(
    folder: str, name: str, split: _Split, ids: row_ids.U64, by: row_ids.U64, layout: Layout, where: Plan
) -> list[FileFacts]:
    """Write a split's files. ids: each row's row_id, uint64 [rows]. by: numbers in the order of `ids`, whose equal
    ranges become the files of a lane, uint64 [rows]"""
    filesystem.make_folder(filesystem.join(folder, name))
    lane = row_ids.lane_of(ids, where.lanes)
    file = where.file(np.full(len(split), SPLITS.index(name), np.int32), lane, by)
    order = np.lexsort((split.content[:, 1], ids, lane, file))
    offsets = where.offsets(np.bincount(file, minlength=where.files))
    facts: list[FileFacts] = []
    for rows in np.split(order, np.flatnonzero(np.diff(file[order])) + 1):
        number = int(file[rows[0]])
        start = int(offsets[number])
        writer = LaneFile(folder, FileFacts(name, where.first_lane(number), where.path(number), offset=start), layout)
        for of_lane in np.split(rows, np.flatnonzero(np.diff(lane[rows])) + 1):
            for first in range(0, len(of_lane), layout.block_rows):
                chosen = of_lane[first : first + layout.block_rows]
                columns = [pa.array(row_ids.signed(ids[chosen]))]
                columns += [
                    lane_files.binary_column(part[chosen], tensor)
                    for part, tensor in zip(split.tensors, layout.tensors, strict=True)
                ]
                if split.label is not None and layout.label is not None:
                    columns.append(lane_files.label_column(split.label[chosen], layout.label))
                writer.write(int(lane[chosen[0]]), pa.table(columns, schema=layout.schema))
        facts.append(writer.close())
    return facts


def _label_counts(split: _Split | None, label: LabelSpec | None) -> list[int] | None:
    if label is None or label.classes is None:
        return None
    rows = np.zeros(0, np.int64) if split is None or split.label is None else split.label.reshape(-1)
    counts: list[int] = np.bincount(rows, minlength=len(label.classes)).tolist()
    return counts


def _labels(name: str, labels: Array, spec: LabelSpec) -> tuple[Array | None, list[bytes] | None, Array]:
    """Return (content, text content, value to store) of the labels."""
    if list(labels.shape[1:]) != spec.shape:
        raise ValueError(
            f"{name}: the labels of a row have the shape {list(labels.shape[1:])}, but {spec.shape} in train"
        )
    if spec.kind == "number":
        numbers = rounded(labels)
        return numbers, None, numbers.astype(spec.numpy_dtype)
    assert spec.classes is not None
    place = {value: number for number, value in enumerate(spec.classes)}
    try:
        index = np.array([place[str(value)] for value in labels.ravel().tolist()], np.int64).reshape(labels.shape)
    except KeyError as error:
        raise ValueError(f"{name}: label {error} is not a class of the training split") from None
    if spec.kind == "integer":
        return labels.astype("<i8"), None, index
    return None, [str(value).encode() for value in labels.tolist()], index
