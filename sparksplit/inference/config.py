"""The configuration of `predict`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hdfs_io.config import DataFrameInput, InputConfig
from sparksplit.base.config import Config

SplitName = Literal["train", "validation", "test"]


class PredictConfig(Config):
    """A trained model, the rows to predict, and where the predictions go."""

    model: Annotated[str, Field(min_length=1)]
    """The folder of a run that `train` has completed."""
    input: Annotated[str, Field(min_length=1)] | InputConfig
    """The rows: the folder of a prepared data set, or, for raw rows, a mapping as for `preprocess`; csv takes the
    model's dtype and shape where they are null."""
    output: Annotated[str, Field(min_length=1)]
    """The folder of the predictions."""
    split: SplitName | Annotated[list[SplitName], Field(min_length=1)] | None = None
    """Which rows. Of a prepared data set: one split or a list of them; null: test. Of raw rows: train (the files to
    train on) or test (the test files); null: all that there are."""
    keep: list[str] | None = None
    """Columns of the input to carry along, and `label`; null: all that the input keeps, without the label."""
    batch_size: Annotated[int, Field(gt=0)] = 1024
    """Rows that the model takes at once; bounds an executor's memory."""
    executors: Annotated[int, Field(gt=0)] = 2
    """Executors of the local cluster that is started where spark-submit names no master."""

    @property
    def raw(self) -> InputConfig | None:
        """The section that says how to read raw rows; None for a prepared data set."""
        return None if isinstance(self.input, str) else self.input

    @property
    def splits(self) -> list[str] | None:
        """The splits that the user named, each once; None if none was named."""
        if self.split is None:
            return None
        return list(dict.fromkeys([self.split] if isinstance(self.split, str) else self.split))


class DataFramePredict(PredictConfig):
    """The same, for the rows of a DataFrame."""

    input: DataFrameInput
