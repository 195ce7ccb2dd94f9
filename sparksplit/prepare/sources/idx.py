"""IDX, the format of MNIST: a big-endian header, then plain values. A folder holds four files with standard names."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hdfs_io import filesystem
from hdfs_io.filesystem import FileFacts
from sparksplit.base.errors import InputError
from sparksplit.base.reading import read_exactly
from sparksplit.dataset.description import Description, TensorSpec
from sparksplit.dataset.labels import rounded
from sparksplit.dataset.manifest import SourceFile
from sparksplit.prepare.config_checks import check_input
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import (
    BATCH_BYTES,
    GZIP_ERRORS,
    RANGE_BYTES,
    BadRow,
    FileSource,
    ParsedRows,
    Task,
    gzip_problem,
    labelled_like,
    open_raw,
)
from sparksplit.prepare.tables.cells import Bools
from sparksplit.prepare.tables.numbers import numbers

_DTYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_PREFIXES = {"train": "train", "test": "t10k"}
_SKIP_BYTES = 1024 * 1024


@dataclass(frozen=True)
class IdxFile:
    """The checked header of one IDX file."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    """The number of rows first."""
    compressed: bool

    @property
    def header_bytes(self) -> int:
        """Bytes before the first value."""
        return 4 + 4 * len(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize

    @property
    def length(self) -> int:
        """Bytes that the uncompressed file must have."""
        return self.header_bytes + self.shape[0] * self.row_bytes

    def values(self, content: bytes) -> np.ndarray[Any, np.dtype[Any]]:
        """Return `content` (whole rows, after the header), little-endian: [n, *shape[1:]]."""
        stored = np.frombuffer(content, dtype=np.dtype(self.dtype).newbyteorder(">"))
        return stored.astype(np.dtype(self.dtype).newbyteorder("<"), copy=False).reshape(-1, *self.shape[1:])


def open_idx(path: str) -> IdxFile:
    """Read and check the header of `path`, and check that the file has the length that the header gives.

    The last four bytes of a gzip file hold the length (RFC 1952, ISIZE). If they disagree with the header, the whole
    file is read, to say what is wrong.

    Raise InputError if the file cannot be read, is not IDX, or has another length.
    """
    try:
        with open_raw(path) as (stream, compressed):
            start = read_exactly(stream.read, 4)
            if len(start) == 4 and (start[:2] != b"\0\0" or start[2] not in _DTYPES or start[3] == 0):
                raise InputError(f"{path}: is not an IDX file: it begins with the bytes {start.hex(' ')}")
            sizes = read_exactly(stream.read, 4 * start[3]) if len(start) == 4 else b""
            if len(start) < 4 or len(sizes) < 4 * start[3]:
                raise InputError(f"{path}: is truncated: it ends within the header")
            shape = struct.unpack(f">{start[3]}I", sizes)
            idx = IdxFile(path, _DTYPES[start[2]], shape, compressed)
            length = filesystem.size(path)
            if compressed and not _announced(path, idx.length):
                length = 4 + len(sizes) + _count(stream)
            elif compressed:
                length = idx.length
    except GZIP_ERRORS as error:
        raise InputError(f"{path}: {gzip_problem(error)}") from None
    if length < idx.length:
        raise InputError(f"{path}: is truncated: it has {length} bytes, but its header announces {idx.length}")
    if length > idx.length:
        raise InputError(f"{path}: has {length - idx.length} bytes more than its header announces")
    return idx


def _announced(path: str, length: int) -> bool:
    with filesystem.open_input(path) as file:
        file.seek(max(0, file.size() - 4))
        end = file.read(4)
    return len(end) == 4 and int(struct.unpack("<I", end)[0]) == length % 2**32


def _count(stream: Any) -> int:
    count = 0
    while part := stream.read(_SKIP_BYTES):
        count += len(part)
    return count


class IdxSource(FileSource):
    """An IDX folder. With `label: null`, the files of labels are ignored.

    need_train: whether the training files must exist. For `predict`, t10k alone is enough.
    """

    @classmethod
    def of(cls, config: InputConfig, description: Description | None, validation: float, test: float) -> IdxSource:
        config = labelled_like(config, description)
        check_input(config)
        return cls(config, description is None)

    @staticmethod
    def facts(folder: str, config: InputConfig) -> list[tuple[str, FileFacts]]:
        """Return (path, facts) of the standard files that exist and are read."""
        if not filesystem.is_folder(folder):
            return []
        kinds = [("images", "idx3-ubyte"), *([("labels", "idx1-ubyte")] if config.label is not None else [])]
        paths = [_find(folder, f"{prefix}-{name}", kind) for prefix in _PREFIXES.values() for name, kind in kinds]
        return [(path, filesystem.facts(path)) for path in paths if path is not None]

    def __init__(self, config: InputConfig, need_train: bool = True) -> None:
        folder = filesystem.absolute(config.one_path())
        if not filesystem.is_folder(folder):
            raise InputError(f"{folder}: folder not found. For IDX, input.path is the folder of the four files")
        self._pairs: dict[str, tuple[IdxFile, IdxFile | None]] = {}
        for part in ("train", "test"):
            pair = _pair(folder, part, labelled=config.label is not None)
            if pair is not None:
                self._pairs[part] = pair
        if not self._pairs or (need_train and "train" not in self._pairs):
            raise InputError(f"{folder}: has no train-images-idx3-ubyte and no train-images-idx3-ubyte.gz")
        images = [pair[0] for pair in self._pairs.values()]
        for other in images[1:]:
            if (other.dtype, other.shape[1:]) != (images[0].dtype, images[0].shape[1:]):
                raise InputError(
                    f"{other.path}: rows are {other.dtype} {list(other.shape[1:])}, but those of {images[0].path} are "
                    f"{images[0].dtype} {list(images[0].shape[1:])}"
                )
        shape = config.shape or list(images[0].shape[1:])
        if math.prod(shape) != math.prod(images[0].shape[1:]):
            raise config.error("shape", f"does not fit rows of {list(images[0].shape[1:])} (is {shape})")
        if config.dtype not in (None, images[0].dtype):
            raise config.error("dtype", f"must be {images[0].dtype}, as in the IDX files (is {config.dtype})")
        self.tensors = [TensorSpec(name="x", dtype=images[0].dtype, shape=shape)]
        self.label_kind = None
        if config.label is not None:
            self.label_kind = _label_kind(config, [pair[1] for pair in self._pairs.values()])
        self.has_test = "test" in self._pairs
        paths = [file.path for pair in self._pairs.values() for file in pair if file is not None]
        self.files = [SourceFile(path=path, bytes=filesystem.size(path)) for path in paths]

    def tasks(self) -> list[Task]:
        """Return ranges of rows as tasks. A pair with a gzip file is one task, because gzip cannot be split."""
        tasks = []
        for part, (images, labels) in self._pairs.items():
            rows = images.shape[0]
            whole = images.compressed or (labels is not None and labels.compressed)
            step = max(rows, 1) if whole else max(1, RANGE_BYTES // max(images.row_bytes, 1))
            tasks += [
                Task(part, images.path, None if labels is None else labels.path, start, min(start + step, rows))
                for start in range(0, rows, step)
            ]
        return tasks

    def read(self, task: Task) -> Iterator[ParsedRows | BadRow]:
        """Yield the task's rows, then its bad rows, batch by batch. A damaged file gives a fatal BadRow.

        A row is bad if a float feature is not finite. It is also bad if its float label is not finite, or is not a
        whole number that int64 holds where labels are classes.
        """
        images, labels = self._pairs[task.part]
        assert task.stop is not None
        step = max(1, BATCH_BYTES // max(images.row_bytes, 1))
        with open_raw(images.path) as (image_stream, _), open_raw((labels or images).path) as (label_stream, _):
            streams = [(images, image_stream)] + ([(labels, label_stream)] if labels else [])
            for file, stream in streams:
                # Correct for gzip too, where a seek reads forward. Tasks with gzip start at row 0.
                stream.seek(file.header_bytes + task.start * file.row_bytes)
            for start in range(task.start, task.stop, step):
                count = min(step, task.stop - start)
                arrays = []
                for file, stream in streams:
                    try:
                        content = read_exactly(stream.read, count * file.row_bytes)
                    except GZIP_ERRORS as error:
                        yield BadRow(file.path, start, gzip_problem(error), fatal=True)
                        return
                    if len(content) < count * file.row_bytes:
                        yield BadRow(file.path, start, "is truncated", fatal=True)
                        return
                    arrays.append(file.values(content))
                tensor = arrays[0].reshape(count, *self.tensors[0].shape)
                label, wrong = self._labels(arrays[1]) if labels is not None else (None, np.zeros(count, np.bool_))
                if tensor.dtype.kind == "f":
                    wrong = wrong | ~np.isfinite(tensor.reshape(count, -1)).all(axis=1)
                if not wrong.any():
                    yield ParsedRows([tensor], label)
                    continue
                if not wrong.all():
                    yield ParsedRows([tensor[~wrong]], None if label is None else label[~wrong])
                for row in np.flatnonzero(wrong).tolist():
                    yield self._bad(task, start + row + 1, [array[row] for array in arrays])
            if any(file.compressed and _ends_badly(stream) for file, stream in streams):
                yield BadRow(
                    images.path,
                    task.stop,
                    "the gzip stream of the images or the labels is damaged at its end",
                    fatal=True,
                )

    def _labels(self, stored: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], Bools]:
        """Return (the labels as in ParsedRows, which of them are bad), both [rows]. stored: as in the file"""
        if self.label_kind == "number":
            return rounded(stored), ~np.isfinite(stored)
        if stored.dtype.kind == "f":
            return numbers(pa.array(stored), np.dtype(np.int64), gaps=False, rounds=True)
        return stored.astype("<i8"), np.zeros(len(stored), np.bool_)

    def _bad(self, task: Task, number: int, row: Sequence[np.ndarray[Any, Any]]) -> BadRow:
        """Return what is wrong with a row of `task`: the first feature that is not finite, or the label.

        number: of the row in its files, from 1. row: its features, then its label if there are labels.
        """
        features = row[0].ravel()
        unlike = np.flatnonzero(~np.isfinite(features))
        if len(unlike):
            place, kind = int(unlike[0]), "a feature is not a finite number"
            reason = f"value {place + 1} of {len(features)} is {features[place]}, not a finite number"
            return BadRow(task.path, number, reason, kind=kind)
        wanted = "a finite number" if self.label_kind == "number" else "a whole number (int64)"
        hint = "; input.label_type: number accepts it" if np.isfinite(row[1]) else ""
        reason = f"the label {row[1]} is not {wanted}{hint}"
        return BadRow(task.labels or "", number, reason, kind=f"a label is not {wanted}")


def _label_kind(config: InputConfig, labels: Sequence[IdxFile | None]) -> str:
    """Return how labels are read: integer or number. With label_type: auto, the type of the first file decides.

    labels: the files of labels, those of the training rows first
    """
    if config.label_type != "auto":
        return config.label_type
    return "number" if labels[0] is not None and labels[0].dtype.startswith("float") else "integer"


def _ends_badly(stream: Any) -> bool:
    """Return whether a gzip stream lacks its end or has a wrong checksum. Only reading past the last value shows
    this."""
    try:
        return bool(stream.read(1))
    except GZIP_ERRORS:
        return True


def _pair(folder: str, part: str, labelled: bool) -> tuple[IdxFile, IdxFile | None] | None:
    """Return the checked images and labels of a part, or None if the folder has neither."""
    prefix = _PREFIXES[part]
    images = _find(folder, f"{prefix}-images", "idx3-ubyte")
    labels = _find(folder, f"{prefix}-labels", "idx1-ubyte") if labelled else None
    if images is None and labels is None:
        return None
    if images is None or (labelled and labels is None):
        missing = f"{prefix}-images-idx3-ubyte" if images is None else f"{prefix}-labels-idx1-ubyte"
        raise InputError(
            f"{folder}: has {filesystem.name(images or labels or '')}, but no {missing} and no {missing}.gz"
        )
    image_file = open_idx(images)
    if len(image_file.shape) < 2:
        raise InputError(f"{images}: has one dimension; images need two or more")
    if labels is None:
        return image_file, None
    label_file = open_idx(labels)
    if len(label_file.shape) != 1:
        raise InputError(f"{labels}: has {len(label_file.shape)} dimensions; labels have one")
    if label_file.shape[0] != image_file.shape[0]:
        raise InputError(f"{images}: {image_file.shape[0]} images, but {label_file.shape[0]} labels in {labels}")
    return image_file, label_file


def _find(folder: str, stem: str, kind: str) -> str | None:
    names = filesystem.listing(folder)
    for name in (f"{stem}-{kind}", f"{stem}.{kind}"):
        for candidate in (name, f"{name}.gz"):
            if candidate in names:
                return filesystem.join(folder, candidate)
    return None
