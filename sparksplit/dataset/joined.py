"""Read several prepared data sets as one, such as the days of a week. Lane l consists of the lanes l of all data sets.

Nothing is written. The data sets are ordered by their digests. So their paths, and the order in which they are given,
do not matter. A lane begins with the full blocks of all data sets, unchanged. The last, shorter blocks follow, laid end
to end and cut again. So every block of a lane except its last is full.

Each data set numbers its own rows. A row in two data sets has the same row_id twice, and counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hdfs_io import filesystem
from hdfs_io.listing import expand
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError
from sparksplit.dataset import prepared
from sparksplit.dataset.description import WEIGHT, TensorSpec
from sparksplit.dataset.labels import label_specs_alike
from sparksplit.dataset.manifest import OF_WEIGHTS, Manifest, SourceFacts, SplitFacts, Statistics
from sparksplit.dataset.prepared import Block, BlockReader, PreparedDataSet, PreparedSplit
from sparksplit.dataset.statistics import Moments

I64 = npt.NDArray[np.int64]

_ALIKE = {
    "tensors": "tensors",
    "label": "labels",
    "features": "features",
    "windows": "windows over time",
    "preprocessing": "fitted numbers",
    "lanes": "lanes",
    "block_rows": "rows in a block",
}
"""Fields that must be equal in data sets read as one, with their names in errors."""


def open_joined(paths: str | Sequence[str], verify: bool = True) -> PreparedDataSet:
    """Open the data sets in the folders `paths` as one. A pattern (`day=*`) stands for its matches.

    verify: as for PreparedDataSet.open.

    Raise InputError like PreparedDataSet.open. Also raise InputError if a pattern matches nothing, if a folder is named
    twice, or if the data sets cannot be read as one.
    """
    folders: dict[str, str] = {}
    for path in [paths] if isinstance(paths, str) else paths:
        matches = expand(path)
        if not matches:
            raise InputError(f"{path}: no file or folder matches this pattern")
        for folder in matches:
            real = filesystem.real(folder)
            if real in folders:
                raise InputError(f"{folder}: is listed twice, so its rows would count twice; remove one")
            folders[real] = folder
    parts = [PreparedDataSet.open(folder, verify) for folder in folders.values()]
    return parts[0] if len(parts) == 1 else JoinedDataSet.of(parts)


class JoinedDataSet(PreparedDataSet):
    """Several complete prepared data sets as one. Small and picklable; holds no open files.

    parts: in the order of their digests. manifest: of all data sets together; it is not written to a file.
    """

    def __init__(self, parts: Sequence[PreparedDataSet]) -> None:
        others = len(parts) - 1
        path = f"{parts[0].path} and {others} other{'' if others == 1 else 's'}"
        super().__init__(path, _together([part.manifest for part in parts]))
        self.parts = list(parts)

    @classmethod
    def of(cls, parts: Sequence[PreparedDataSet]) -> JoinedDataSet:
        """Join `parts`, given in any order. Raise InputError if they do not fit together."""
        for part in parts:
            if part.manifest.order == "given":
                raise InputError(f"{part.path}: has `order: given`, so it cannot be read with other data sets as one")
        for part in parts[1:]:
            check_alike(parts[0], part)
        return cls(sorted(parts, key=lambda part: part.digest))

    @property
    def paths(self) -> list[str]:
        """The folders, in the order in which their rows are read."""
        return [part.path for part in self.parts]

    @cached_property
    def digest(self) -> str:
        """A short hash of the content of all data sets, independent of their paths and of the order in which they were
        named.
        """
        return digest({"joined": [part.digest for part in self.parts]})

    def files(self, split: str) -> dict[str, int]:
        """Return the bytes of each file of a split, by full path."""
        return {
            filesystem.join(part.path, path): size for part in self.parts for path, size in part.files(split).items()
        }

    def split(self, name: str) -> JoinedSplit:
        """Return the split `name` of all data sets."""
        return JoinedSplit(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinedDataSet, (self.parts,)


class JoinedSplit(PreparedSplit):
    """One split's rows of several data sets, by lanes and blocks."""

    def __init__(self, data: JoinedDataSet, name: str) -> None:
        super().__init__(data, name)
        self._parts = data.parts

    def reader(self) -> JoinedReader:
        """Return a reader of the split's blocks, for one thread."""
        return JoinedReader(self._parts, self._name)


@dataclass(frozen=True)
class Piece:
    """Rows start..stop-1 of block `block` of a lane of the data set `part`."""

    part: int
    block: int
    start: int
    stop: int


def pieces(rows: I64, block_rows: int, block: int) -> list[Piece]:
    """Return the pieces of block `block` of a joined lane, in order. Empty past the lane's end.

    rows: of that lane in each of the data sets, int64 [parts].
    """
    full = np.cumsum(rows // block_rows)
    if block < full[-1]:
        part = int(np.searchsorted(full, block, side="right"))
        in_part = block - int(full[part] - rows[part] // block_rows)
        return [Piece(part, in_part, 0, block_rows)]
    rest = rows % block_rows
    ends = np.cumsum(rest)
    first = (block - int(full[-1])) * block_rows
    last = min(first + block_rows, int(ends[-1]))
    parts = np.flatnonzero((rest > 0) & (ends > first) & (ends - rest < last))
    return [
        Piece(
            part,
            int(rows[part]) // block_rows,
            max(0, first - int(ends[part] - rest[part])),
            min(int(rest[part]), last - int(ends[part] - rest[part])),
        )
        for part in parts.tolist()
    ]


class JoinedReader:
    """Reads the blocks of one split of several data sets. Not thread-safe: use one per thread."""

    def __init__(self, parts: Sequence[PreparedDataSet], split: str) -> None:
        self._parts, self._split = parts, split
        self._rows = np.array([part.manifest.splits[split].lane_rows for part in parts], np.int64)
        self._block_rows = parts[0].manifest.block_rows
        self._open_files = max(1, prepared.OPEN_FILES // len(parts))
        self._readers: dict[int, BlockReader] = {}

    def read(self, lane: int, block: int) -> Block:
        """Return block `block` of `lane`. Raise the errors of BlockReader.read."""
        parts = pieces(self._rows[:, lane], self._block_rows, block) if block >= 0 else []
        if not parts:
            raise IndexError(f"lane {lane} has no block {block}")
        blocks = [_cut(self._reader(piece.part).read(lane, piece.block), piece) for piece in parts]
        if len(blocks) == 1:
            return blocks[0]
        names = blocks[0].tensors
        return Block(
            np.concatenate([each.row_ids for each in blocks]),
            {name: np.concatenate([each.tensors[name] for each in blocks]) for name in names},
            None if blocks[0].label is None else np.concatenate([each.label for each in blocks]),
        )

    def _reader(self, part: int) -> BlockReader:
        if part not in self._readers:
            self._readers[part] = BlockReader(self._parts[part], self._split, open_files=self._open_files)
        return self._readers[part]

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def __enter__(self) -> JoinedReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cut(block: Block, piece: Piece) -> Block:
    rows = slice(piece.start, piece.stop)
    label = None if block.label is None else block.label[rows]
    return Block(block.row_ids[rows], {name: tensor[rows] for name, tensor in block.tensors.items()}, label)


def check_alike(one: PreparedDataSet, other: PreparedDataSet) -> None:
    """Raise InputError if the two data sets cannot be read as one. The message names `other` and the difference."""
    for name, what in _ALIKE.items():
        ours, theirs = getattr(one.manifest, name), getattr(other.manifest, name)
        if name == "tensors":
            ours, theirs = _of_any_column(ours), _of_any_column(theirs)
        if ours == theirs or (name == "label" and label_specs_alike(ours, theirs)):
            continue
        if isinstance(ours, int):
            key = "lanes" if name == "lanes" else "block_size"
            problem = f"has {theirs} {what}, {one.path} has {ours}; prepare both with the same `{key}`"
        elif name == "tensors" and _unweighted(ours) == _unweighted(theirs):
            has = "weights, {} has none" if len(theirs) > len(ours) else "no weights, {} has some"
            problem = f"has {has.format(one.path)}; prepare both with `input.weight`"
        elif name == "label" and ours is not None and theirs is not None and ours.parsed == theirs.parsed:
            wide, short = (one, other) if ours.dtype == "float64" else (other, one)
            problem = f"has labels in {theirs.dtype}, {one.path} in {ours.dtype}; prepare {short.path} again with "
            problem += f"`fitted: {wide.path}`"
        else:
            problem = f"differs from {one.path} in its {what}; prepare it with `fitted: {one.path}`"
        raise InputError(f"{other.path}: {problem}")


def _of_any_column(tensors: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Return the specs without the name of the only column. Values mean the same under any name, and data sets from
    before the key have none. The names of several columns say in which order the values are, so they must be equal."""
    return [tensor.model_copy(update={"column": None}) for tensor in tensors]


def _unweighted(tensors: Sequence[TensorSpec]) -> list[TensorSpec]:
    return [tensor for tensor in tensors if tensor.name != WEIGHT]


def _together(manifests: Sequence[Manifest]) -> Manifest:
    first = manifests[0]
    names = [name for name in first.splits if all(name in manifest.splits for manifest in manifests)]
    splits = {
        name: _sum([each.splits[name] for each in manifests], first.tensors, [each.weights(name) for each in manifests])
        for name in names
    }
    return first.model_copy(
        update={
            "config_hash": digest([manifest.config_hash for manifest in manifests]),
            "source": SourceFacts(
                format=first.source.format, files=[file for manifest in manifests for file in manifest.source.files]
            ),
            "keep": [name for name in first.keep if all(name in manifest.keep for manifest in manifests)],
            "splits": splits,
            "label_name": next((each.label_name for each in manifests if each.label_name is not None), None),
            "nulls": next((each.nulls for each in manifests if each.nulls is not None), None),
            "dependent": next((each.dependent for each in manifests if each.dependent), None),
            "unseen_labels": _added([manifest.unseen_labels for manifest in manifests]),
            "bad_rows": _added([manifest.bad_rows for manifest in manifests]),
            "windows_left_out": _added([manifest.windows_left_out for manifest in manifests]),
        }
    )


def _sum(
    splits: Sequence[SplitFacts], tensors: Sequence[TensorSpec], weights: Sequence[Statistics | None]
) -> SplitFacts:
    means = [split.label_means for split in splits]
    weights_checksums = [split.weights_checksum for split in splits]
    rows = [split.rows for split in splits]
    statistics = {
        spec.name: _pooled(spec, rows, [split.statistics[spec.name] for split in splits])
        for spec in _unweighted(tensors)
        if spec.name in splits[0].statistics
    }
    known = [each for each in weights if each is not None]
    if len(known) == len(splits):
        weight = next(spec for spec in tensors if spec.name == WEIGHT)
        statistics[OF_WEIGHTS] = _pooled(weight, rows, known)
    shares = np.array([split.rows for split in splits]) / max(1, sum(split.rows for split in splits))
    return splits[0].model_copy(
        update={
            "rows": sum(split.rows for split in splits),
            "checksum": sum(split.checksum for split in splits) % 2**64,
            "weights_checksum": None
            if None in weights_checksums
            else sum(each or 0 for each in weights_checksums) % 2**64,
            "lane_rows": np.sum([split.lane_rows for split in splits], axis=0, dtype=np.int64).tolist(),
            "statistics": statistics,
            "label_counts": _summed([split.label_counts for split in splits]),
            "label_weights": _summed([split.label_weights for split in splits]),
            "label_means": None if None in means else np.dot(shares, np.array(means)).tolist(),
            "files": sum(split.files for split in splits),
            "bytes": sum(split.bytes for split in splits),
        }
    )


def _summed(lists: Sequence[list[Any] | None]) -> list[Any] | None:
    """Return the lists' element-wise sum; None if a list is missing."""
    there = [values for values in lists if values is not None]
    return np.sum(there, axis=0).tolist() if len(there) == len(lists) else None


def _pooled(spec: TensorSpec, rows: Sequence[int], statistics: Sequence[Statistics]) -> Statistics:
    """Return the statistics of a tensor over several splits, which have so many rows."""
    total = Moments()
    for of_split, rows_of_split in zip(statistics, rows, strict=True):
        count = rows_of_split * spec.values - of_split.missing
        if count:
            part = Moments()
            part.count[:], part.min[:], part.max[:] = count, of_split.min, of_split.max
            part.mean[:], part.squares[:] = of_split.mean, of_split.std**2 * count
            total.merge(part)
        total.missing += of_split.missing
    return total.whole()


def _added(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for each in counts for name in each)
    return {name: sum(each.get(name, 0) for each in counts) for name in names}
