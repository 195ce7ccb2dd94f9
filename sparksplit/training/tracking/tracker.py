"""Sends a run to MLflow while it trains, in a thread of its own. A tracking server that is away never ends a run.

What could not be sent is sent at the end, from metrics.jsonl. The command waits a limited time for that. If the server
is still away then, the same command sends everything later: it finds the run complete and the MLflow run missing or
incomplete.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Thread

from hdfs_io import filesystem
from sparksplit.base.errors import InputError, Passing
from sparksplit.base.passwords import without_passwords
from sparksplit.base.progress import say
from sparksplit.training.progress_record import EpochRecord, read_history
from sparksplit.training.run_record import RunRecord
from sparksplit.training.tracking import facts, logged_model
from sparksplit.training.tracking.session import Session, limited, reason
from sparksplit.training.train_config import TrainConfig, Training

_PAUSE = 60.0
"""Seconds after a failure until the next try. What comes meanwhile is sent at the end."""
_SILENT = 3.0
"""Seconds until a line says that the command waits for MLflow."""
_LONGEST = 120.0
"""Most seconds that a finished command waits for MLflow, without the upload of files."""
BYTES_PER_SECOND = 1e6
"""The slowest upload that a finished command waits for."""
_LONGEST_FAILED = 20.0
"""Most seconds that a failed or interrupted run waits for MLflow."""


def tracking(config: Training) -> tuple[bool, str | None]:
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
            where = f"MLflow cannot use {without_passwords(mlflow.get_tracking_uri())}"
            todo = "Name a server in MLFLOW_TRACKING_URI, such as http://HOST:5000"
            # MLflow's error itself may hold the address with its password.
            raise config.error("mlflow", f"{where}: {reason(error).split('. ')[0]}. {todo}") from None
    return config.mlflow is True or active is not None, None if active is None else active.info.run_id


class Sender:
    """Calls MLflow in a thread of its own, so that a slow server holds nobody up. Failures are reported once."""

    def __init__(self, goes_on: str) -> None:
        """goes_on: what the report of a failure says about the rest."""
        self._acts = SimpleQueue[Callable[[], object] | None]()
        self._goes_on, self._failed = goes_on, float("-inf")
        self._is_ending = self._is_left = False
        # A daemon: the command ends even if a request never does.
        self._thread = Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def send(self, act: Callable[[], object]) -> None:
        """Run `act` in the thread, without waiting. Leave it out soon after a failure."""
        self._acts.put(lambda: self._try(act))

    def send_last(self, act: Callable[[], object], seconds: float, otherwise: str, alone: bool = False) -> None:
        """Run `act` in the thread, and wait for it, but at most `seconds`. Then the thread ends.

        otherwise: what to do later if it fails or takes longer.
        alone: whether `act` sends everything, so that what waits in the queue is left out.
        """
        self._is_ending = alone
        self._acts.put(lambda: self._last(act, otherwise))
        self._acts.put(None)
        self._thread.join(min(_SILENT, seconds))
        if self._thread.is_alive():
            say(f"MLflow: waiting for the tracking server, at most {seconds:.0f} s")
            self._thread.join(max(0.0, seconds - _SILENT))
        if self._thread.is_alive():
            self._is_left = True
            say(f"MLflow: not done after {seconds:.0f} s; {otherwise}")

    @property
    def is_away(self) -> bool:
        """Whether the last call has failed a short time ago."""
        return time.monotonic() - self._failed < _PAUSE

    def _work(self) -> None:
        while (act := self._acts.get()) is not None:
            act()

    def _try(self, act: Callable[[], object]) -> None:
        if self.is_away or self._is_ending:
            return
        try:
            with limited():
                act()
        except Exception as error:  # whatever the server, the network or MLflow raises
            if self._failed == float("-inf") and not self._is_left:
                say(f"MLflow: {reason(error)}; {self._goes_on}")
            self._failed = time.monotonic()

    def _last(self, act: Callable[[], object], otherwise: str) -> None:
        try:
            with limited():
                act()
        except Exception as error:
            if not self._is_left:
                say(f"MLflow: {reason(error)}; {otherwise}")


class BaseTracker:
    """What the trackers of `train` and `compare` share. No method raises an error of MLflow."""

    def __init__(
        self, output: str, command: str, active: str | None = None, parent: str | None = None, name: str = ""
    ) -> None:
        """command: what sends. active, parent: as for `Session`. name: of the MLflow run; empty: the output's name."""
        self._output, self._command, self._active, self._parent = output, command, active, parent
        self._name = name or filesystem.name(output)
        self._sender = Sender(f"{command} goes on, and what is missing is sent at the end")
        self._identity, self._params = "", dict[str, str]()
        self._session: Session | None = None

    def failed(self, error: BaseException) -> None:
        """End the MLflow run, if it has begun, with the status of a run that `error` has ended.

        Wait for it at most 20 s.
        """
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        tags = {"sparksplit.error": facts.text(" ".join(without_passwords(str(error)).split()) or status)}

        def end() -> None:
            if self._session is not None and not self._sender.is_away:  # an interrupted command must end soon
                self._session.send_tags(tags)
                self._session.end(status)

        open_still = f"the same {self._command} command continues this run, and sends what is missing of it"
        self._sender.send_last(end, _LONGEST_FAILED, open_still)

    def _finish(self, act: Callable[[], object], seconds: float) -> None:
        """Send everything that is missing with `act`, and wait for it: at most two minutes, and `seconds` for files."""
        later = f"the same {self._command} command sends what is missing of this run later"
        if self._command == "search":
            later = "what is missing of this trial is not sent later, because a search removes the files of most trials"
        self._sender.send_last(act, _LONGEST + seconds, later, alone=True)

    def _open(self) -> Session:
        if self._session is None:
            session = Session(self._identity, self._name, self._active, self._parent)
            if not session.complete:
                session.send_params(self._params)
            self._session = session
        return self._session


class Tracker(BaseTracker):
    """Sends one run of `train`."""

    def __init__(self, output: str, active: str | None, name: str = "") -> None:
        """active: the id of the caller's active MLflow run. name: of a trial's new MLflow run; empty: the run is no
        trial, and an MLflow run gets the output's name."""
        super().__init__(output, "search" if name else "train", active=active, name=name)

    def began(self, config_hash: str, begun: str, config: TrainConfig) -> None:
        """Start the MLflow run, or continue it. A later call does nothing.

        begun: when the run's first attempt began. config: what trains, with the keys that a compiled model, a
        comparison or Spark's master has changed.
        """
        if not self._identity:
            self._params = facts.params(config.model_dump(mode="json"))
            self._identity = facts.identity(config_hash, begun)
            self._sender.send(self._open)

    def epoch(self, record: EpochRecord) -> None:
        """Send the metrics of a round."""
        self._sender.send(lambda: self._send_epochs(record))

    def finished(self, folder: str, record: RunRecord) -> None:
        """Send what is missing of the complete run in `folder`, and end the MLflow run.

        Wait until it is sent: at most two minutes, and a second for each MB of the model.
        """
        self._params = self._params or facts.params(record.config)
        if record.attempts:
            self._identity = facts.identity(record.config_hash, record.attempts[0].begun)
        seconds = 0.0
        with suppress(InputError, Passing):  # what cannot be read cannot be sent either, and that is reported
            seconds = logged_model.size(folder) / BYTES_PER_SECOND
        self._finish(lambda: self._send_rest(folder, record), seconds)

    def _send_epochs(self, *records: EpochRecord) -> None:
        self._open().send_metrics({one.epoch: facts.of_epoch(one) for one in records})

    def _send_rest(self, folder: str, record: RunRecord) -> None:
        session = self._open()
        if not session.complete:
            history = read_history(folder)
            self._send_epochs(*history)
            session.send_metrics({history[-1].epoch if history else 0: facts.at_end(record)})
            session.send_tags(facts.tags(record))
            logged_model.send(session, folder, record)
            session.send_tags({facts.COMPLETE: "true"})
        else:
            logged_model.send_onnx(session, folder, record)
        session.end("FINISHED")
