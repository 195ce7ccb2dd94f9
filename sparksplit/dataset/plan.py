"""The layout of a prepared data set: lanes, blocks and files, from the number of rows. Pure functions of integers.

Lanes determine the order of training rows. Blocks are the unit that nodes read. Files are the unit that HDFS stores.
Files hold whole lanes if the set is small, and parts of one lane if it is large. Neither choice changes the order of
rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparksplit.dataset.manifest import SPLITS

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
LANES = 96
_DOUBLINGS = 4
_LANE_ROWS, _LANE_BYTES = 1000, 4 * 2**20
"""Smallest size of a lane for doubling the number of lanes."""
READING_BYTES = 384 * 2**20
"""Bytes of blocks in a node that owns all lanes and reads a window of each lane while it trains on another."""
_WINDOWS = 2
WINDOW = 4
"""Blocks of a lane whose rows are shuffled together, if they fit into READING_BYTES."""
_LEAST_BLOCK = 16 * 2**10
_SMALL_FILE, _SMALL_FILES = 8 * 2**20, 32
"""Smallest size and largest number of files that let several tasks write data that would fit into one file."""
_STATISTICS = 200_000


def lanes_for(rows: int, row_bytes: int) -> int:
    """Return the number of lanes for `rows` rows: 96, or up to 1,536 if each lane is then large enough."""
    most = min(rows // _LANE_ROWS, rows * row_bytes // _LANE_BYTES)
    return LANES << max(0, min(_DOUBLINGS, (most // LANES).bit_length() - 1))


def block_bytes(lanes: int, block_size: int) -> int:
    """Return the bytes of a block: `block_size`, or less if that many lanes would not fit into READING_BYTES."""
    return min(block_size, max(_LEAST_BLOCK, READING_BYTES // (_WINDOWS * lanes)))


def block_rows(row_bytes: int, block_size: int) -> int:
    """Return the rows in a block of about `block_size` bytes: 16 to 4096."""
    return max(16, min(4096, block_size // max(row_bytes, 1)))


def window_for(lanes: int, block_size: int) -> int:
    """Return how many blocks of each lane are shuffled together: 4, or down to 1 to stay within READING_BYTES.

    The result does not depend on the number of nodes. Otherwise nodes would see other rows in other mini-batches.
    """
    return max(1, min(WINDOW, READING_BYTES // (_WINDOWS * lanes * max(block_size, 1))))


def files_for(rows: int, row_bytes: int, file_size: int) -> int:
    """Return the number of files for `rows` rows: of `file_size` bytes, or smaller if the set is small."""
    size = rows * row_bytes
    return max(-(-size // file_size), min(_SMALL_FILES, size // _SMALL_FILE), 1 if rows else 0)


def by_block(rows: int, rows_in_block: int, features: int) -> bool:
    """Whether the statistics of every block are few enough to be kept apart.

    They are then added in the order of lanes, so that their last bits do not depend on the files.
    """
    return (rows // rows_in_block + LANES) * features <= _STATISTICS


@dataclass(frozen=True)
class SplitPlan:
    """The files of a split, numbered from `first`. per_file: lanes per file; per_lane: files per lane; one of the two
    is 1.
    """

    first: int
    per_file: int
    per_lane: int
    files: int


@dataclass(frozen=True)
class Plan:
    """Assigns each row to a file. Files are numbered split by split."""

    lanes: int
    splits: tuple[SplitPlan, ...]
    """In the order of SPLITS."""

    @classmethod
    def of(cls, rows: dict[str, int], row_bytes: int, lanes: int, file_size: int) -> Plan:
        """Return the plan. rows: of each split."""
        splits: list[SplitPlan] = []
        first = 0
        for name in SPLITS:
            wanted = files_for(rows[name], row_bytes, file_size)
            per_file = -(-lanes // max(1, min(lanes, wanted)))
            per_lane = max(1, -(-wanted // lanes))
            files = -(-lanes // per_file) * per_lane if rows[name] else 0
            splits.append(SplitPlan(first, per_file, per_lane, files))
            first += files
        return cls(lanes, tuple(splits))

    @property
    def files(self) -> int:
        """Number of files."""
        return sum(split.files for split in self.splits)

    def file(self, split: npt.NDArray[np.int32], lane: npt.NDArray[np.int32], by: U64) -> I64:
        """Return the file number of each row: int64 [rows].

        by: row_ids, or other numbers in their order. In a split with several files per lane, each file has an equal
        range of these numbers.
        """
        first, per_file, per_lane = (
            np.array([getattr(each, name) for each in self.splits], np.int64)
            for name in ("first", "per_file", "per_lane")
        )
        within = high_product(by, per_lane[split].astype(np.uint64)).astype(np.int64)
        return first[split] + lane // per_file[split] * per_lane[split] + within

    @property
    def cuts_lanes(self) -> bool:
        """Whether a lane is in several files."""
        return any(split.per_lane > 1 for split in self.splits)

    def offsets(self, rows: I64) -> I64:
        """Return the rows of each file's first lane that are in earlier files: int64 [files].

        rows: in each file, int64 [files]; used only if `cuts_lanes`
        """
        earlier = np.zeros(self.files, np.int64)
        for split in self.splits:
            if split.per_lane > 1:
                mine = slice(split.first, split.first + split.files)
                of_lanes = rows[mine].reshape(-1, split.per_lane)
                earlier[mine] = (np.cumsum(of_lanes, axis=1) - of_lanes).reshape(-1)
        return earlier

    def split_of(self, file: int) -> str:
        """Return the split of a file."""
        return next(
            name
            for name, split in zip(SPLITS, self.splits, strict=True)
            if split.first <= file < split.first + split.files
        )

    def first_lane(self, file: int) -> int:
        """Return the first lane in a file."""
        split = self.splits[SPLITS.index(self.split_of(file))]
        return (file - split.first) // split.per_lane * split.per_file

    def path(self, file: int) -> str:
        """Return a file's path within the data set."""
        name = self.split_of(file)
        split, first = self.splits[SPLITS.index(name)], self.first_lane(file)
        width = max(3, len(str(self.lanes - 1)))
        if split.per_lane > 1:
            part = (file - split.first) % split.per_lane
            return f"{name}/lane-{first:0{width}d}-part-{part:0{len(str(split.per_lane - 1))}d}.parquet"
        last = min(first + split.per_file, self.lanes) - 1
        return f"{name}/lanes-{first:0{width}d}-{last:0{width}d}.parquet"


def high_product(left: U64, right: U64) -> U64:
    """Return the upper 64 bits of left * right, elementwise; right must be below 2^32."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    return ((left >> half) * right + ((left & low) * right >> half)) >> half


# The functions below compute into which partition Spark's `repartition(partitions, column)` puts an int.


def spark_hash(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return Spark's hash() of an int column: Murmur3 (x86, 32 bits) of four bytes, with seed 42."""
    k = _rotated(numbers.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = _rotated(np.uint32(42) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    return (h ^ (h >> np.uint32(16))).view(np.int32)


def _rotated(numbers: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))


def partition_keys(partitions: int) -> npt.NDArray[np.int32]:
    """Return one int for each of `partitions` partitions, which Spark puts there: int32 [partitions], all different."""
    keys, missing, start = np.zeros(partitions, np.int32), partitions, 0
    known = np.zeros(partitions, np.bool_)
    while missing:
        tried = np.arange(start, start + 8 * partitions, dtype=np.int32)
        place, index = np.unique(spark_hash(tried) % np.int32(partitions), return_index=True)
        new = ~known[place]
        keys[place[new]], known[place] = tried[index[new]], True
        missing, start = int((~known).sum()), start + len(tried)
    return keys
