"""The configuration of `predict`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hdfs_io.config import DataFrameInput, InputConfig
from sparksplit.base.config import Config

SplitName = Literal["train", "validation", "test"]


class PredictConfig(Config):
    """A trained model and rows to its predictions."""

    model: Annotated[str, Field(min_length=1)]
    """The folder of a run that `train` has completed."""
    input: Annotated[str, Field(min_length=1)] | InputConfig
    """The rows: the folder of a prepared data set, or, for raw rows, a mapping as `preprocess` has it; dtype and shape
    of csv are the model's where they are null."""
    output: Annotated[str, Field(min_length=1)]
    """The folder of the predictions."""
    split: SplitName | Annotated[list[SplitName], Field(min_length=1)] | None = None
    """Which rows: of a prepared data set a split or a list of them, null: test; of raw rows train (the files to train
    on) or test (the test files), null: all that there are."""
    keep: list[str] | None = None
    """Columns of the input to carry along, and `label`; null: all that the input keeps, without the label."""
    batch_size: Annotated[int, Field(gt=0)] = 1024
    """Rows that the model takes at once; bounds the memory of an executor."""
    executors: Annotated[int, Field(gt=0)] = 2
    """Executors of the local cluster that is started where spark-submit names no master."""

    @property
    def raw(self) -> InputConfig | None:
        """The section that says how raw rows read; None for a prepared data set."""
        return None if isinstance(self.input, str) else self.input

    @property
    def splits(self) -> list[str] | None:
        """The splits that the user named, each once; None where none was."""
        if self.split is None:
            return None
        return list(dict.fromkeys([self.split] if isinstance(self.split, str) else self.split))


class DataFramePredict(PredictConfig):
    """The same for the rows of a DataFrame."""

    input: DataFrameInput
