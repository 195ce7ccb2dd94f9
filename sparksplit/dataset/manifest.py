"""manifest.json: what a prepared data set holds, and the checksums that it must have.

It stays small, since every task gets it; what is said of each file and block is in `block_table`.
"""

from __future__ import annotations

from typing import Literal

import pydantic

from hdfs_io import filesystem
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
from sparksplit.dataset.feature_spec import Feature

FILE = "manifest.json"
SPLITS = ("train", "validation", "test")
Dependent = Literal["windows", "text", "features", "key", "time"]
"""Why the rows of a split are no independent sample: they are windows over time, or sequences of a text, or the user
has cut them by what belongs together."""


class SourceFile(Frozen):
    """One raw file."""

    path: str
    bytes: int


class SourceFacts(Frozen):
    """Where the rows came from."""

    format: str
    files: list[SourceFile]


class Statistics(Frozen):
    """The values of a tensor, or of a feature in the units that it is scaled in, over a split, without missing ones;
    zeros where there are none."""

    min: float
    max: float
    mean: float
    std: float
    """The population's standard deviation."""
    missing: int = 0


class SplitFacts(Frozen):
    """The rows of train, validation or test; there may be none, and then no files and no table of blocks."""

    rows: int
    checksum: int
    """The ledger's: the sum modulo 2^64 of mix64(row_id)."""
    lane_rows: list[int]
    """Rows of each lane; every block of a lane but its last has the manifest's `block_rows` rows."""
    statistics: dict[str, Statistics]
    """By tensor; where it has features that are numbers or dates, by their columns instead."""
    label_counts: list[int] | None = None
    """Rows of each class (places, where a label has several); None where the label is not a class."""
    label_weights: list[float] | None = None
    """The summed weights of the rows (places) of each class; None where rows have no weights."""
    label_means: list[float] | None = None
    """The mean of each number of a row's label; None where the label is a class."""
    files: int
    bytes: int
    """Of the files."""


class Manifest(Frozen):
    """The whole of manifest.json."""

    format_version: int = FORMAT_VERSION
    config_hash: str
    created_by: str
    source: SourceFacts
    lanes: int
    block_rows: int
    tensors: list[TensorSpec]
    label: LabelSpec | None
    keep: list[str]
    preprocessing: FittedPreprocessing
    features: list[Feature] = pydantic.Field(default_factory=list)
    splits: dict[str, SplitFacts]
    unseen_labels: dict[str, int] = pydantic.Field(default_factory=dict)
    """By split: rows with a label that no training row has. They have the class `<unknown>`, where there is one, or
    were left out."""
    bad_rows: dict[str, int] = pydantic.Field(default_factory=dict)
    """Rows that were left out, by reason; they are in bad_rows/."""
    dependent: Dependent | None = None
    """Why the rows of a split are no independent sample; None where they count as one."""
    windows: Windows | None = None
    """Where rows are windows over time."""
    exif: bool | None = None
    """Whether images were turned as their EXIF orientation says; None where rows are no images."""
    label_name: str | None = None
    """The label's raw column; None where it has no name of the user's."""
    windows_left_out: dict[str, int] = pydantic.Field(default_factory=dict)
    """Windows that were left out: over `gaps`, with `nulls`, with labels on both sides of a boundary of the `cut`; and
    series that are too `short` for one."""

    @property
    def description(self) -> Description:
        """What a model needs to know about the data set."""
        return Description(
            tensors=self.tensors,
            label=self.label,
            preprocessing=self.preprocessing,
            features=self.features,
            windows=self.windows,
            exif=self.exif,
            label_name=self.label_name,
            keep=self.keep,
        )

    @property
    def block_bytes(self) -> int:
        """Bytes of a whole block, in memory."""
        label = 0 if self.label is None else self.label.row_bytes
        return self.block_rows * (8 + label + sum(tensor.row_bytes for tensor in self.tensors))

    def weights(self, split: str) -> Statistics | None:
        """The statistics of the weights of a split's rows; None where rows have none, or where a feature has the name,
        since there are statistics of features by column."""
        has_weights = WEIGHT in {tensor.name for tensor in self.tensors}
        if not has_weights or WEIGHT in {feature.column for feature in self.features}:
            return None
        return self.splits[split].statistics.get(WEIGHT)

    def blocks(self, split: str, lane: int) -> int:
        """Blocks of `lane` in `split`."""
        return -(-self.splits[split].lane_rows[lane] // self.block_rows)

    def write(self, folder: str) -> None:
        """Write manifest.json into `folder`."""
        filesystem.write_bytes(filesystem.join(folder, FILE), (self.model_dump_json() + "\n").encode())

    @classmethod
    def read(cls, folder: str) -> Manifest:
        """Read manifest.json from `folder`. Raises InputError where it is missing, damaged or of an unknown version."""
        return read_model(cls, filesystem.join(folder, FILE))
