"""One MLflow run, found again or made, in the calling thread. Every function raises MLflow's errors."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sparksplit.base.passwords import without_passwords
from sparksplit.training.tracking import facts

_LIMITS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": 0,
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": True,
}
"""Defaults of MLflow's settings while sparksplit calls it, beside the time limit. MLflow's own wait for minutes."""
UPLOAD = 60
"""Most seconds that a request waits while files are sent. A server may answer only once its own store has a file."""
_SECRETS = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", "DATABRICKS_TOKEN", "DATABRICKS_CLIENT_SECRET")
"""Environment variables whose values no message may show."""
_REASON = 400
_BATCH = 100
"""Most parameters, tags or metrics in one request, which MLflow's servers accept."""


_Item = TypeVar("_Item")

_lock = threading.Lock()
_blocks: list[None] = []
"""One entry for each block of `limited` that is running, in any thread."""
_theirs: dict[Any, Any] = {}
"""MLflow's own defaults, while blocks are running."""


@contextmanager
def limited(seconds: int = 10) -> Iterator[None]:
    """Give each of MLflow's requests a time limit while the block lasts, unless the user has set the limits."""
    # MLflow reads its settings at each request, also in threads of its own. `os.environ` stays as it is, because other
    # threads may copy it at this moment.
    from mlflow import environment_variables

    limits = {**_LIMITS, "MLFLOW_HTTP_REQUEST_TIMEOUT": seconds}
    settings = {getattr(environment_variables, name): value for name, value in limits.items()}
    with _lock:
        if not _blocks:
            _theirs.update({setting: setting.default for setting in settings})
        for setting, value in settings.items():
            setting.default = value
        _blocks.append(None)
    try:
        yield
    finally:
        with _lock:
            _blocks.pop()
            if not _blocks:
                for setting, value in _theirs.items():
                    setting.default = value


def reason(error: Exception) -> str:
    """Return an error of MLflow on one line, without passwords and tokens."""
    text = without_passwords(str(error))
    for name in _SECRETS:
        if secret := os.environ.get(name, "").strip():
            text = text.replace(secret, "***")
    return " ".join(text.split())[:_REASON] or type(error).__name__


class Session:
    """An MLflow run that is this thread's active run until `end`. A run that is complete and ended is left as it is."""

    def __init__(self, identity: str, name: str, active: str | None = None, parent: str | None = None) -> None:
        """Continue the MLflow run that has `identity` in its tag facts.ID. Without such a run, make one.

        name: the name of a new MLflow run.
        active: the id of the caller's active run. It becomes this run unless it has another identity already: then this
            run is a child of it.
        parent: the id of the run that a new run is a child of.
        """
        import mlflow

        self.client, self._is_callers = mlflow.MlflowClient(), False
        found = self.client.get_run(active) if active is not None else None
        if found is not None:
            self._is_callers = found.data.tags.get(facts.ID, identity) == identity
            if not self._is_callers:
                parent, found = found.info.run_id, None
        if found is None:
            where = f"tags.`{facts.ID}` = '{identity}'"
            known = mlflow.search_runs(filter_string=where, output_format="list", max_results=1)
            found = next(iter(known), None)
        self._is_new, self.complete = found is None, False
        self._ended: tuple[str, int] | None = None
        """(status, time) of a run that is complete and ended."""
        self._steps = dict[str, set[int]]()
        """The steps that the run has, by metric, as far as they are known."""
        if found is not None:
            self.complete = facts.COMPLETE in found.data.tags
            if self.complete and found.info.status != "RUNNING":
                self._ended = found.info.status, found.info.end_time
            else:
                mlflow.start_run(run_id=found.info.run_id, nested=True)
            self.run_id, self.params = found.info.run_id, dict(found.data.params)
        else:
            tags = {facts.ID: identity}
            made = mlflow.start_run(run_name=name, nested=parent is not None, parent_run_id=parent, tags=tags)
            self.run_id, self.params = made.info.run_id, {}
        if self._is_callers:
            self.client.set_tag(self.run_id, facts.ID, identity)

    def send_params(self, params: Mapping[str, str]) -> None:
        """Send parameters. MLflow changes no parameter: a parameter that the run has already keeps its value."""
        from mlflow.entities import Param

        new = {key: value for key, value in params.items() if key not in self.params}
        for part in _parts([Param(key, value) for key, value in new.items()]):
            self.client.log_batch(self.run_id, params=part)
        self.params |= new

    def send_metrics(self, metrics: Mapping[int, Mapping[str, float]]) -> None:
        """Send metrics by their step. A metric that the run has at a step already is not sent again."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        values = [
            Metric(key, value, now, step)
            for step, of_step in metrics.items()
            for key, value in of_step.items()
            if step not in self._steps_of(key)
        ]
        for part in _parts(values):
            try:
                self.client.log_batch(self.run_id, metrics=part)
            except Exception:
                self._is_new = False  # the server may have stored them nevertheless
                self._steps.clear()
                raise
            for one in part:
                self._steps[one.key].add(one.step)

    def _steps_of(self, metric: str) -> set[int]:
        """Return the steps at which the run has a value of `metric`."""
        if metric not in self._steps:
            history = [] if self._is_new else self.client.get_metric_history(self.run_id, metric)
            self._steps[metric] = {each.step for each in history}
        return self._steps[metric]

    def send_tags(self, tags: Mapping[str, str]) -> None:
        """Send tags."""
        from mlflow.entities import RunTag

        for part in _parts([RunTag(key, value) for key, value in tags.items()]):
            self.client.log_batch(self.run_id, tags=part)

    def send_text(self, name: str, text: str) -> None:
        """Send a text file as an artifact of the run."""
        with limited(UPLOAD):
            self.client.log_text(self.run_id, text, name)

    def end(self, status: str) -> None:
        """End the run with `status`: FINISHED, FAILED or KILLED. Correct the status of a run that has ended.

        The caller's own active run goes on.
        """
        import mlflow

        if self._is_callers:
            return
        if self._ended is None:
            mlflow.end_run(status)
        elif self._ended[0] != status:
            self.client.set_terminated(self.run_id, status, self._ended[1])


def _parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
