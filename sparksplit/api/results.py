"""Results of the functions: the path of an output, and its content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from hdfs_io import filesystem
from hdfs_io.marks import SUCCESS
from sparksplit.base.errors import InputError
from sparksplit.base.user_functions import FunctionError, is_own, split_name
from sparksplit.comparison.answer.content import Answer
from sparksplit.comparison.answer.words import words
from sparksplit.comparison.content import REPORT, Results
from sparksplit.inference.writer import places_of
from sparksplit.planning import plan_record
from sparksplit.planning.words import words as words_of_plan
from sparksplit.searching.search_record import BEST, SearchRecord, Trial, folder_of
from sparksplit.training.progress_record import Values, read_history
from sparksplit.training.run_record import RunRecord

if TYPE_CHECKING:
    import keras
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TrainedRun:
    """A complete run of `train`.

    path: the run's folder. record: the content of run.json: `record.ledger`, `record.seconds`, `record.metrics` and
    more.
    """

    path: str
    record: RunRecord = field(repr=False)

    @classmethod
    def open(cls, path: str) -> TrainedRun:
        """Open the run in the folder `path`. Raise InputError if there is no run, or if it is not complete."""
        _check_complete(path, "run of train")
        return cls(filesystem.absolute(path), RunRecord.read(path))

    @property
    def history(self) -> pd.DataFrame:
        """A row for each round; the index is `epoch`, from 1. A round is an epoch, unless the nodes split the epochs.

        Columns: train_loss, train_accuracy and so on for each metric, then the same names with validation_. They are
        followed by updates (since the start of the run), rows, seconds (of training) and rows_per_second.
        """
        records = read_history(self.path)
        rows = [
            {
                "epoch": each.epoch,
                **{f"train_{name}": value for name, value in each.train.items()},
                **{f"validation_{name}": value for name, value in (each.validation or {}).items()},
                "updates": each.updates,
                "rows": each.rows,
                "seconds": each.seconds.train,
                "rows_per_second": each.rows_per_second,
            }
            for each in records
        ]
        return pd.DataFrame(rows).set_index("epoch")

    @property
    def test(self) -> Values:
        """The loss and the metrics on the test rows, by name; empty if the data set has no test rows."""
        return self.record.metrics.test

    def predict_rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the model's predictions for a few raw rows, without Spark.

        The result has the columns of `predict`, such as `prediction` and `probabilities`, and the index of `rows`.

        rows: a pandas frame with the columns that the data set was prepared from. The label and other columns are
        ignored.
        Raise InputError for a missing column, or for a value that the model cannot take.
        """
        from sparksplit.inference.few_rows import predict_rows

        return predict_rows(self.path, rows)

    def model(self, trust: bool = False) -> keras.Model:
        """Return the trained Keras model, as its builder made it. The model takes preprocessed numbers, not raw rows.

        For raw rows, use `predict_rows`, `predict` or the folder's `saved_model`. Layers that are not Keras's own come
        from the builder's file or module, which must still be where the run had it. For a model or a function of a
        session, they come from the run's folder.

        trust: run Python code that the run names or holds, although the code may be another user's. Without trust, the
        run's files and the builder's file must be local files of this user.

        Raise InputError if the layers cannot be loaded.
        """
        from sparksplit.model import own_model, saving
        from sparksplit.model.builders import builder_source, load_builder
        from sparksplit.model.export import KERAS
        from sparksplit.training.run_record import RUN

        model = self.record.config.get("model")
        name = str(model.get("build", "")) if isinstance(model, dict) else ""
        path = filesystem.join(self.path, KERAS)
        content, ours = own_model.read(path)
        try:
            return saving.load_bytes(content)
        except (TypeError, ValueError) as error:  # Keras raises these errors for unknown classes
            is_builder = is_own(name) and not own_model.is_own_model(name)
            if not (is_builder or own_model.is_own_model(name)):
                raise
            # run.json names the code, so both files must be this user's, and so must the builder's file.
            files = [filesystem.join(self.path, RUN)]
            if is_builder and (place := split_name(name)[0]).endswith(".py"):
                files.append(place)
            if not (trust or (ours and all(own_model.is_ours(file) for file in files))):
                raise InputError(
                    f"{path}: needs Python code that may be another user's; trust=True runs the code"
                ) from error
            try:
                if is_builder:
                    return saving.load_bytes(content, saving.supplied(load_builder(name, builder_source(name))))
                code = own_model.code_of(self.path, trust)
                return saving.load_bytes(content, saving.supplied(code) if callable(code) else code, trusted=True)
            except (FunctionError, own_model.OwnModelError, TypeError, ValueError) as other:
                raise InputError(f"{path}: cannot be loaded, even with the classes of {name}: {other}") from error


@dataclass(frozen=True, repr=False)
class Plan:
    """The result of `plan`. Printed, it is the answer in at most six lines.

    record: the predictions and the measurements, as plan.json has them.
    """

    record: plan_record.Plan

    def __repr__(self) -> str:
        return "\n".join(words_of_plan(self.record))

    @property
    def answer(self) -> plan_record.Answer:
        """The recommendation, as data."""
        return self.record.answer

    @property
    def table(self) -> pd.DataFrame:
        """A row for each strategy and number of nodes."""
        return pd.json_normalize([row.to_json() for row in self.record.rows])


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `compare`. Printed, it is the answer in at most six lines, and the path of the report.

    path: the comparison's folder. answer: the recommendation, as data (docs/compare-method.md). results: the content of
    results.json.
    """

    path: str
    answer: Answer
    results: dict[str, Any]

    @classmethod
    def open(cls, path: str) -> Comparison:
        """Open the comparison in the folder `path`.

        Raise InputError if there is no comparison, or if it is not complete.
        """
        _check_complete(path, "comparison")
        results = Results.read(path)
        return cls(filesystem.absolute(path), results.answer, results.to_json())

    def __repr__(self) -> str:
        return "\n".join([*words(Results.from_json(self.results, self.path)), f"Report: {self.report}"])

    @property
    def table(self) -> pd.DataFrame:
        """A row for each strategy and number of nodes. Seconds, bytes and metrics are means over the seeds."""
        return pd.json_normalize(self.results["table"])

    @property
    def report(self) -> str:
        """The path of the HTML page."""
        return filesystem.join(self.path, REPORT)


@dataclass(frozen=True, repr=False)
class Search:
    """The result of `search`. Printed, it is the best trial.

    path: the search's folder. record: the content of search.json.
    """

    path: str
    record: SearchRecord

    @classmethod
    def open(cls, path: str) -> Search:
        """Open the search in the folder `path`. Raise InputError if there is no search, or if it is not complete."""
        _check_complete(path, "search")
        return cls(filesystem.absolute(path), SearchRecord.read(path))

    def __repr__(self) -> str:
        values = ", ".join(f"{key} = {value}" for key, value in self.best.items())
        found = f"{self._best.value:.6g} {self.record.metric} on the validation rows"
        return f"Best of {len(self.record.trials)} trials: {values}\n{found}\nConfiguration: {self.config}"

    @property
    def best(self) -> dict[str, Any]:
        """The values of the searched keys in the best trial. `train(data, output, **keys, **search.best)` takes
        them."""
        return dict(self._best.keys)

    @property
    def trials(self) -> list[dict[str, Any]]:
        """A dict for each trial, for `pandas.DataFrame(search.trials)`: number, state, value, the searched keys,
        seconds, epochs."""
        return [
            {
                "number": trial.number,
                "state": trial.state,
                "value": trial.value,
                **trial.keys,
                "seconds": trial.seconds,
                "epochs": len(trial.epochs),
            }
            for trial in self.record.trials
        ]

    @property
    def run(self) -> TrainedRun:
        """The run of the best trial. It has not looked at the test rows."""
        return TrainedRun.open(folder_of(self.path, self._best.number))

    @property
    def config(self) -> str:
        """The path of the configuration with the best values, for `sparksplit train --config`."""
        return filesystem.join(self.path, BEST)

    @property
    def _best(self) -> Trial:
        best = self.record.best
        assert best is not None  # a search without a best trial is not complete
        return best


@dataclass(frozen=True)
class Predictions:
    """The output of `predict`.

    path: the folder of the predictions. metrics: the content of metrics.json; None if the rows had no labels.
    """

    path: str
    metrics: dict[str, Any] | None

    @classmethod
    def open(cls, path: str) -> Predictions:
        """Open the predictions in the folder `path`.

        Raise InputError if there are no predictions, or if they are not complete.
        """
        _check_complete(path, "predictions")
        file = filesystem.join(path, places_of(path).metrics)
        metrics = dict(filesystem.read_json(file)) if filesystem.exists(file) else None
        return cls(filesystem.absolute(path), metrics)

    def frame(self) -> DataFrame:
        """Return the predictions as a DataFrame of the running Spark session.

        Raise RuntimeError if no session is running. Raise RunError if Spark's JVM does not answer.
        """
        from sparksplit.spark.own_session import classic_session
        from sparksplit.spark.session import asking, running_context

        context = running_context()
        if context is None:
            raise RuntimeError(
                "no Spark session of this program is running. Start one to read the predictions, not while a call of "
                "sparksplit runs in another thread"
            )
        with asking(context):
            return classic_session().read.parquet(filesystem.for_spark(places_of(self.path).folder(self.path)))

    def pandas(self) -> pd.DataFrame:
        """Return the predictions as a pandas frame, all of them in memory. This needs no Spark."""
        import pyarrow.dataset as ds

        source, inner = filesystem.resolve(places_of(self.path).folder(self.path))
        frame: pd.DataFrame = ds.dataset(inner, filesystem=source, format="parquet").to_table().to_pandas()
        return frame


def _check_complete(path: str, what: str) -> None:
    if not filesystem.exists(filesystem.join(path, SUCCESS)):
        raise InputError(f"{path}: not a complete {what}: no {SUCCESS} file")
