"""The configuration of `predict`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sparksplit.base.config import Config
from sparksplit.prepare.preprocess_config import DataFrameInput, InputConfig
from sparksplit.spark.waiting import QUEUE_SECONDS, START_SECONDS, Patience

SplitName = Literal["train", "validation", "test"]


_COLUMN = re.compile(r"[A-Za-z]\w*", re.ASCII)
_VALUE = re.compile(r"[\w.\-]+")
"""Characters that need no escape in a partition's folder, for any reader."""


def _problem(partition: Mapping[str, str | int]) -> str | None:
    """Return the problem with the columns and values of a partition; None without a problem."""
    if not partition:
        return "must name a column and its value, such as {ds: 2026-11-22}"
    if len({column.lower() for column in partition}) < len(partition):
        return "names a column twice: tables do not tell upper case from lower"
    for column, value in partition.items():
        if not _COLUMN.fullmatch(column):
            return f"a column's name is made of letters, digits and _, and begins with a letter (is {column!r})"
        if not _VALUE.fullmatch(str(value)):
            return f"{column}: a value is made of letters, digits, _, - and . (is {str(value)!r})"
    return None


def _partition(values: dict[str, str | int]) -> dict[str, str | int]:
    if wrong := _problem(values):
        raise ValueError(wrong)
    return values


class PredictConfig(Config):
    """The configuration of `predict`: a trained model, the rows to predict, and the output."""

    model: Annotated[str, Field(min_length=1)]
    """The output folder of a complete `train` run, or its model in MLflow: models:/NAME/VERSION, models:/NAME@ALIAS or
    runs:/ID/model."""
    input: Annotated[str, Field(min_length=1)] | InputConfig
    """The rows to predict. Prepared data set: its folder. Raw rows: a mapping with the `input` keys of `preprocess`."""
    output: Annotated[str, Field(min_length=1)]
    """The folder of the predictions. With `partition`: the folder of the table."""
    partition: Annotated[dict[str, str | int], AfterValidator(_partition)] | None = None
    """Write the predictions as one partition of the table in the folder `output`. For example, {ds: 2026-11-22} writes
    the partition ds=2026-11-22. Other partitions stay as they are. Several columns make nested folders. Put a number
    that begins with 0 in quotes."""
    split: SplitName | Annotated[list[SplitName], Field(min_length=1)] | None = None
    """The splits to predict: one split or a list. For a prepared data set, null is test. For raw rows, the splits are
    the files of `input.path` (train), `input.validation` and `input.test`. In an idx folder, test is the t10k files.
    For raw rows, null is all splits."""
    labels: Literal["optional", "required"] = "optional"
    """Whether the input must have labels. optional: without labels, there are no metrics. required: without labels, the
    job ends with an error."""
    keep: list[str] | None = None
    """Columns to copy from the input to the predictions. Choose from the columns that the input keeps, and `label`.
    null: all columns that the input keeps, without the label."""
    top: Annotated[int, Field(gt=0)] | None = None
    """Number of classes to write for each row, the most probable first. The predictions then have the lists
    top_predictions, top_probabilities and, if classes have names, top_names. null: the list probabilities, with every
    class. Only for models that predict one class for each row."""
    batch_size: Annotated[int, Field(gt=0)] = 1024
    """Number of rows that the model predicts at once. A smaller number needs less memory in the executors."""
    executors: Annotated[int, Field(gt=0)] = 2
    """Number of executors in the local cluster. The command starts a local cluster if spark-submit names no master."""
    queue_timeout: Annotated[float, Field(gt=0)] = QUEUE_SECONDS
    """Seconds to wait until the cluster grants an executor. A busy queue may need more. If all executors are lost while
    the command works, a new executor must be granted and must start within this time."""
    start_timeout: Annotated[float, Field(gt=0)] = START_SECONDS
    """Seconds to wait at the beginning until a granted executor has started. A host without a copy of the environment's
    archive needs minutes to fetch the archive. After a loss of all executors, only `queue_timeout` counts."""

    @property
    def patience(self) -> Patience:
        """How long to wait for executors."""
        return Patience(self.queue_timeout, self.start_timeout)

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
    """The configuration of `predict` for the rows of a DataFrame."""

    input: DataFrameInput
