"""Sends a run to MLflow while it trains, in a thread of its own. A tracking server that is away never ends a run.

What could not be sent is sent at the end, from metrics.jsonl. If the server is still away then, the same train command
sends everything later: it finds the run complete and the MLflow run missing or incomplete.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec

from hdfs_io import filesystem
from sparksplit.base.progress import say
from sparksplit.training.progress_record import EpochRecord, read_history
from sparksplit.training.run_record import RunRecord
from sparksplit.training.tracking import facts, logged_model
from sparksplit.training.tracking.session import Session, limited
from sparksplit.training.train_config import TrainConfig

_PAUSE = 60.0
"""Seconds after a failure until the next try. What comes meanwhile is sent at the end."""
_REASON = 200


def tracking(config: TrainConfig) -> tuple[bool, str | None]:
    """Return (whether MLflow tracks what `config` describes, the id of the caller's active MLflow run or None).

    Raise ConfigError if `mlflow` is true, but MLflow is not installed or has no store that it can use.
    """
    loaded = sys.modules.get("mlflow")
    active = loaded.active_run() if loaded is not None and config.mlflow is not False else None
    if config.mlflow is True:
        if find_spec("mlflow") is None:
            raise config.error("mlflow", "MLflow is not installed; run pip install 'sparksplit[mlflow]'")
        import mlflow

        try:
            mlflow.MlflowClient()
        except Exception as error:
            where = f"MLflow cannot use {mlflow.get_tracking_uri()}"
            todo = "Name a server in MLFLOW_TRACKING_URI, such as http://HOST:5000"
            raise config.error("mlflow", f"{where}: {_reason(error)}. {todo}") from error
    return config.mlflow is True or active is not None, None if active is None else active.info.run_id


class Sender:
    """Calls MLflow in a thread of its own, so that a slow server holds nobody up. Failures are reported once."""

    def __init__(self, goes_on: str) -> None:
        """goes_on: what the report of a failure says about the rest."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="mlflow")
        self._goes_on, self._failed = goes_on, float("-inf")

    def send(self, act: Callable[[], object]) -> None:
        """Run `act` in the thread, without waiting. Leave it out soon after a failure."""
        self._worker.submit(self._try, act)

    def send_last(self, act: Callable[[], None], otherwise: str) -> None:
        """Run `act` in the thread, wait for it, and end the thread. otherwise: what to do later if it fails."""
        done: Future[None] = self._worker.submit(self._last, act, otherwise)
        self._worker.shutdown()
        done.result()

    @property
    def is_away(self) -> bool:
        """Whether the last call has failed a short time ago."""
        return time.monotonic() - self._failed < _PAUSE

    def _try(self, act: Callable[[], object]) -> None:
        if self.is_away:
            return
        try:
            with limited():
                act()
        except Exception as error:  # whatever the server, the network or MLflow raises
            if self._failed == float("-inf"):
                say(f"MLflow: {_reason(error)}; {self._goes_on}")
            self._failed = time.monotonic()

    def _last(self, act: Callable[[], None], otherwise: str) -> None:
        try:
            with limited():
                act()
        except Exception as error:
            say(f"MLflow: {_reason(error)}; {otherwise}")


class Tracker:
    """Sends one run of `train`. No method raises an error of MLflow."""

    def __init__(self, config: TrainConfig, output: str, active: str | None) -> None:
        """active: the id of the caller's active MLflow run."""
        self._params, self._output, self._active = facts.params(config.model_dump(mode="json")), output, active
        self._sender = Sender("training goes on, and what is missing is sent at the end")
        self._identity, self._sent = "", set[int]()
        self._session: Session | None = None

    def began(self, config_hash: str, begun: str) -> None:
        """Start the MLflow run, or continue it. A later call does nothing.

        begun: when the run's first attempt began.
        """
        if not self._identity:
            self._identity = facts.identity(config_hash, begun)
            self._sender.send(self._open)

    def epoch(self, record: EpochRecord) -> None:
        """Send the metrics of a round."""
        self._sender.send(lambda: self._send_epoch(record))

    def finished(self, folder: str, record: RunRecord) -> None:
        """Send what is missing of the complete run in `folder`, and end the MLflow run. Wait until it is sent."""
        if record.attempts:
            self._identity = facts.identity(record.config_hash, record.attempts[0].begun)
        self._sender.send_last(
            lambda: self._send_rest(folder, record), "the same train command sends what is missing of this run later"
        )

    def failed(self, error: BaseException) -> None:
        """End the MLflow run, if it has begun, with the status of a run that `error` has ended. Wait for it."""
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        tags = {"sparksplit.error": facts.text(" ".join(str(error).split()) or status)}

        def end() -> None:
            if self._session is not None and not self._sender.is_away:  # an interrupted command must end soon
                self._session.send_tags(tags)
                self._session.end(status)

        self._sender.send_last(end, "the MLflow run stays open until the same train command continues it")

    def _open(self) -> Session:
        if self._session is None:
            session = Session(self._identity, filesystem.name(self._output), self._active)
            if not session.complete:
                session.send_params(self._params)
                self._sent = session.has("train_loss")
            self._session = session
        return self._session

    def _send_epoch(self, record: EpochRecord) -> None:
        session = self._open()
        if record.epoch not in self._sent:
            session.send_metrics(facts.of_epoch(record), record.epoch)
            self._sent.add(record.epoch)

    def _send_rest(self, folder: str, record: RunRecord) -> None:
        session = self._open()
        if not session.complete:
            history = read_history(folder)
            for epoch in history:
                self._send_epoch(epoch)
            session.send_metrics(facts.at_end(record), history[-1].epoch if history else 0)
            session.send_tags(facts.tags(record))
            logged_model.send(session, folder, record)
            session.send_tags({facts.COMPLETE: "true"})
        session.end("FINISHED")


def _reason(error: Exception) -> str:
    """Return an error's first sentence, on one line."""
    return " ".join(str(error).split()).split(". ")[0][:_REASON] or type(error).__name__
