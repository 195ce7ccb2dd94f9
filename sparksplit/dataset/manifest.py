"""manifest.json: the contents of a prepared data set, and its checksums.

The manifest stays small, because every task gets it. `block_table` has the details of each file and block.
"""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from hdfs_io import filesystem
from sparksplit.base.later_keys import LaterKeys
from sparksplit.dataset.description import (
    FORMAT_VERSION,
    WEIGHT,
    Description,
    FittedPreprocessing,
    Frozen,
    LabelSpec,
    TensorSpec,
    Windows,
    read_model,
)
from sparksplit.dataset.feature_spec import Date, Feature, Number

FILE = "manifest.json"
OF_WEIGHTS = ""
"""The key of the row weights among a split's statistics. A column may be named like the weights' tensor."""
SPLITS = ("train", "validation", "test")
Dependent = Literal["windows", "text", "features", "key", "time", "order"]
"""Why the rows of a split are not an independent sample: windows over time, sequences of a text, a cut that keeps
related rows together, or `order: given`.
"""


Order = Literal["hash", "given"]
"""Where rows are. hash: a row's content decides its row_id, and so its lane and its place in the lane. given: its
number in the source does, and training shuffles nothing.
"""


class SourceFile(Frozen):
    """One raw file."""

    path: str
    bytes: int


class SourceFacts(Frozen):
    """The origin of the rows."""

    format: str
    files: list[SourceFile]


class Statistics(Frozen):
    """The values of a tensor over a split, without missing values. For a feature: in its scaling units. Zeros if there
    are no values.
    """

    min: float
    max: float
    mean: float
    std: float
    """The population standard deviation."""
    missing: int = 0


class SplitFacts(LaterKeys, Frozen):
    """The rows of train, validation or test. An empty split has no files and no table of blocks."""

    later = ("content_checksum",)

    rows: int
    checksum: int
    """The ledger's checksum: the sum modulo 2^64 of mix64(row_id)."""
    content_checksum: int | None = None
    """With `order: given`: checksum of the rows' contents, which are no part of a row_id. Otherwise None."""
    weights_checksum: int | None = None
    """Checksum of the rows' weights, which are no part of a row_id; None if rows have no weights."""
    lane_rows: list[int]
    """Rows of each lane. Every block of a lane except its last has the manifest's `block_rows` rows."""
    statistics: dict[str, Statistics]
    """By tensor. For number and date features, by column instead. Of row weights: by OF_WEIGHTS."""
    label_counts: list[int] | None = None
    """Rows of each class (places, if a label has several); None if the label is not a class."""
    label_weights: list[float] | None = None
    """Sum of the weights of each class's rows (places); None if rows have no weights."""
    label_means: list[float] | None = None
    """The mean of each number of a row's label; None if the label is a class."""
    files: int
    bytes: int
    """Bytes of the files."""

    @property
    def content(self) -> list[Any]:
        """The part of the facts that differs if rows, weights or lanes differ, for the data set's digest."""
        known = [each for each in (self.content_checksum, self.weights_checksum) if each is not None]
        return [self.checksum, self.lane_rows, *known]


class Manifest(LaterKeys, Frozen):
    """The content of manifest.json."""

    later = ("order",)

    format_version: int = FORMAT_VERSION
    config_hash: str
    created_by: str
    source: SourceFacts
    lanes: int
    block_rows: int
    order: Order = "hash"
    tensors: list[TensorSpec]
    label: LabelSpec | None
    keep: list[str]
    preprocessing: FittedPreprocessing
    features: list[Feature] = pydantic.Field(default_factory=list)
    splits: dict[str, SplitFacts]
    unseen_labels: dict[str, int] = pydantic.Field(default_factory=dict)
    """By split: rows with a label that no training row has. They have the class `<unknown>`, if it exists, or were left
    out.
    """
    bad_rows: dict[str, int] = pydantic.Field(default_factory=dict)
    """Rows that were left out, by reason. They are in bad_rows/."""
    dependent: Dependent | None = None
    """Why the rows of a split are not an independent sample; None if they are one."""
    windows: Windows | None = None
    """Set if rows are windows over time."""
    exif: bool | None = None
    """Whether images were turned as their EXIF orientation says; None if rows are not images."""
    label_name: str | None = None
    """The label's raw column; None if the user gave it no name."""
    nulls: list[str] | None = None
    """Texts that stood for a missing value in the raw files; None: the default of their format."""
    windows_left_out: dict[str, int] = pydantic.Field(default_factory=dict)
    """Windows that were left out: over `gaps`, with `nulls`, or with labels on both sides of a boundary of the `cut`.
    Also series that are too `short` for one window.
    """

    @property
    def description(self) -> Description:
        """The data set's description for a model."""
        return Description(
            tensors=self.tensors,
            label=self.label,
            preprocessing=self.preprocessing,
            features=self.features,
            windows=self.windows,
            exif=self.exif,
            label_name=self.label_name,
            keep=self.keep,
            nulls=self.nulls,
        )

    @property
    def block_bytes(self) -> int:
        """Bytes of a full block in memory."""
        label = 0 if self.label is None else self.label.row_bytes
        return self.block_rows * (8 + label + sum(tensor.row_bytes for tensor in self.tensors))

    def weights(self, split: str) -> Statistics | None:
        """Return the statistics of the row weights of a split; None if rows have no weights, or if they are unknown."""
        if WEIGHT not in {tensor.name for tensor in self.tensors}:
            return None
        # Earlier data sets have the weights under their tensor's name, or a column of that name instead.
        hidden = any(each.column == WEIGHT for each in self.features if isinstance(each, Number | Date))
        statistics = self.splits[split].statistics
        return statistics.get(OF_WEIGHTS, None if hidden else statistics.get(WEIGHT))

    def blocks(self, split: str, lane: int) -> int:
        """Return the number of blocks of `lane` in `split`."""
        return -(-self.splits[split].lane_rows[lane] // self.block_rows)

    def write(self, folder: str) -> None:
        """Write manifest.json into `folder`."""
        filesystem.write_bytes(filesystem.join(folder, FILE), (self.model_dump_json() + "\n").encode())

    @classmethod
    def read(cls, folder: str) -> Manifest:
        """Read manifest.json from `folder`. Raise InputError if it is missing, damaged or of an unknown version."""
        return read_model(cls, filesystem.join(folder, FILE))
