"""The configuration of `predict`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sparksplit.base.config import Config
from sparksplit.prepare.config import DataFrameInput, InputConfig
from sparksplit.spark.waiting import QUEUE_SECONDS, START_SECONDS, Patience

SplitName = Literal["train", "validation", "test"]


_COLUMN = re.compile(r"[A-Za-z]\w*", re.ASCII)
_VALUE = re.compile(r"[\w.\-]+")
"""What needs no escape in a partition's folder, nor is one in any reader's eyes."""


def _problem(partition: Mapping[str, str | int]) -> str | None:
    """What is wrong with the columns and values of a partition; None if nothing is."""
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
    """A trained model, the rows to predict, and where the predictions go."""

    model: Annotated[str, Field(min_length=1)]
    """The folder of a run that `train` has completed."""
    input: Annotated[str, Field(min_length=1)] | InputConfig
    """The rows: the folder of a prepared data set, or, for raw rows, a mapping as for `preprocess`; csv takes the
    model's dtype and shape where they are null."""
    output: Annotated[str, Field(min_length=1)]
    """The folder of the predictions; with `partition`, that of the table."""
    partition: Annotated[dict[str, str | int], AfterValidator(_partition)] | None = None
    """{ds: 2026-11-22}, say: the predictions become the partition ds=2026-11-22 of the table in the folder `output`,
    and replace no other; several columns make folders in folders. Quote a number that begins with 0."""
    split: SplitName | Annotated[list[SplitName], Field(min_length=1)] | None = None
    """Which rows. Of a prepared data set: one split or a list of them; null: test. Of raw rows: train (the files to
    train on) or test (the test files); null: all that there are."""
    labels: Literal["optional", "required"] = "optional"
    """Whether rows may lack the label: there are no metrics then. required: such rows end the job."""
    keep: list[str] | None = None
    """Columns of the input to carry along, and `label`; null: all that the input keeps, without the label."""
    top: Annotated[int, Field(gt=0)] | None = None
    """A classifier's: so many classes of each row, the most probable first, as the lists top_predictions (and
    top_names) and top_probabilities; null: the probability of every class, as the list probabilities."""
    batch_size: Annotated[int, Field(gt=0)] = 1024
    """Rows that the model takes at once; bounds an executor's memory."""
    executors: Annotated[int, Field(gt=0)] = 2
    """Executors of the local cluster that is started where spark-submit names no master."""
    queue_timeout: Annotated[float, Field(gt=0)] = QUEUE_SECONDS
    """Seconds to wait until the cluster has granted an executor: a queue may be busy."""
    start_timeout: Annotated[float, Field(gt=0)] = START_SECONDS
    """Seconds from then on until the executor has started. A host that has no copy of the environment's archive takes
    minutes to fetch it."""

    @property
    def patience(self) -> Patience:
        """How long executors are waited for."""
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
    """A trained model, the DataFrame whose rows to predict, and where the predictions go."""

    input: DataFrameInput
