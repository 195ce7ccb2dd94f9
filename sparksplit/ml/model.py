"""What the models share: a run's folder, predictions as columns, and how a model is saved and loaded."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from pyspark.ml import Model
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter

from hdfs_io import filesystem
from hdfs_io.marks import SUCCESS
from sparksplit.api.results import TrainedRun
from sparksplit.base.config import parse
from sparksplit.base.errors import InputError, SparksplitError
from sparksplit.inference.appending import Appended, appended
from sparksplit.inference.trained import TrainedModel
from sparksplit.ml.folders import qualified
from sparksplit.ml.params import PredictionColumns
from sparksplit.ml.turns import settings
from sparksplit.prepare.preprocess_config import DataFrameInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUN = "run"
_LEFT_OUT = ("checkpoints", "tensorboard")
"""Parts of a run's folder that a saved model does not have."""
_BLOCK = 8 * 1024 * 1024
_READING = ("dtype", "missing")
"""Keys of `input` that say how a value becomes a number, for `transform` as for `fit`."""


class TrainedColumns(Model, PredictionColumns, MLReadable["TrainedColumns"], MLWritable):
    """Base of the models. `transform` appends columns to a DataFrame, which Spark computes when they are needed.

    folder: the run's folder.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def __repr__(self) -> str:
        try:
            record = self.run.record
            how = f"strategy={record.strategy!r}, nodes={record.nodes}, "
        except (SparksplitError, OSError):  # the folder is gone
            how = ""
        return f"{type(self).__name__}({how}featuresCol={self.getOrDefault('featuresCol')!r}, folder={self.folder!r})"

    @cached_property
    def _trained(self) -> TrainedModel:
        return TrainedModel.open(self.folder)

    @property
    def run(self) -> TrainedRun:
        """The run: its history, its record, and the Keras model."""
        return TrainedRun.open(self.folder)

    @property
    def _appended(self) -> Appended:
        """The columns to append."""
        return Appended(self.getPredictionCol())

    def _transform(self, dataset: DataFrame) -> DataFrame:
        given = self.getOrDefault("input") if self.isDefined("input") else {}
        section = {key: value for key, value in given.items() if key in _READING}
        config = parse(DataFrameInput, {**section, "label": None})
        with settings():
            return appended(dataset, self.feature_columns, self._trained, self._appended, config)

    def write(self) -> MLWriter:
        """Return what saves the model, with all that `load` needs."""
        return _Writer(self)

    @classmethod
    def read(cls) -> _Reader:
        """Return what loads a saved model."""
        return _Reader(cls)

    @classmethod
    def load(cls, path: str) -> Self:
        """Load a saved model. It predicts from the folder `path`, which must stay."""
        model: Self = cls.read().load(path)
        return model


class _Writer(MLWriter):
    def __init__(self, model: TrainedColumns) -> None:
        super().__init__()
        self._model = model

    def save(self, path: str) -> None:
        """Save the model. Raise InputError if this would overwrite the folder that the model itself predicts from."""
        if self.shouldOverwrite and filesystem.holds(qualified(self.sc, path), self._model.folder):
            raise InputError(f"{path}: holds the model itself; save it in another folder")
        super().save(path)

    def saveImpl(self, path: str) -> None:
        folder = qualified(self.sc, path)
        if filesystem.exists(folder):
            raise InputError(f"{path}: exists already; write().overwrite().save(...) replaces it")
        _copy(self._model.folder, filesystem.join(folder, _RUN))
        # Last: without the metadata, nothing counts as a saved model.
        DefaultParamsWriter.saveMetadata(self._model, path, self.sc)


class _Reader(MLReader[TrainedColumns]):
    def __init__(self, cls: type[TrainedColumns]) -> None:
        super().__init__()
        self._class = cls

    def load(self, path: str) -> Any:
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        name = f"{self._class.__module__}.{self._class.__name__}"
        if metadata["class"] != name:
            raise InputError(f"{path}: holds a {metadata['class']}, not a {name}")
        model = self._class(filesystem.join(qualified(self.sc, path), _RUN))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        TrainedModel.open(model.folder)  # an incomplete copy fails here, not in a task
        return model


def _copy(run: str, target: str) -> None:
    """Copy the run's folder. The marker comes last."""
    TrainedModel.open(run)  # raises if the run is gone
    files = [name for name in filesystem.tree(run) if name.partition("/")[0] not in _LEFT_OUT]
    for name in sorted(files, key=lambda name: name == SUCCESS):
        place = filesystem.join(target, name)
        with filesystem.open_input(filesystem.join(run, name)) as source, filesystem.writing(place) as copy:
            while block := source.read(_BLOCK):
                copy.write(block)
