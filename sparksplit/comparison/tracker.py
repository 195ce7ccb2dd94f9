"""Sends a comparison to MLflow: a run, and within it a run for each training, once its record is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.errors import InputError, Passing
from sparksplit.comparison.answer.words import headline
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.comparison_record import ComparedRun, DivergedRun, read_run
from sparksplit.comparison.content import REPORT, RESULTS, Results
from sparksplit.comparison.work import RUNS, Work
from sparksplit.training.progress_record import CurvePoint
from sparksplit.training.tracking import facts
from sparksplit.training.tracking.session import Session
from sparksplit.training.tracking.tracker import BYTES_PER_SECOND, BaseTracker

Role = Literal["compared", "reference", "try"]
"""compared: the answer is about this run. reference: gives the target and the metric's range. try: of the search."""

_BEGUN = "_BEGUN"
"""The file with the time at which a comparison that MLflow tracks has begun."""


class ComparisonTracker(BaseTracker):
    """Sends one comparison."""

    def __init__(self, output: str, active: str | None) -> None:
        """active: the id of the caller's active MLflow run, which a new run is a child of."""
        super().__init__(output, "compare", parent=active)
        self._sent = set[str]()
        """The keys of the runs that have been sent."""

    def began(self, output: Output, config: CompareConfig) -> None:
        """Start the comparison's MLflow run, or continue it. config: with the keys that a compiled model has changed.

        A file in the output keeps the time, so that a later command finds the MLflow run again.
        """
        path = filesystem.join(output.folder, _BEGUN)
        if not filesystem.exists(path):
            output.fence.write_bytes(path, datetime.now(UTC).isoformat(timespec="seconds").encode())
        self._identity = facts.identity(output.config_hash, filesystem.read_bytes(path).decode())
        self._params = facts.params(config.model_dump(mode="json"))
        self._sender.send(self._open)

    def look(self, folder: str, work: Sequence[Work]) -> None:
        """Send the runs of `work` that have a record in the comparison's `folder`, without waiting."""
        self._sender.send(lambda: self._send_new(folder, work))

    def finished(self, folder: str, results: Results, tries: Sequence[Work]) -> None:
        """Send what is missing of the complete comparison in `folder`, and end its MLflow run.

        tries: the runs of the hyperparameter search. Wait until everything is sent: at most two minutes, and a second
        for each run and each MB of results.json and the report.
        """
        files = [filesystem.join(folder, name) for name in (RESULTS, REPORT)]
        seconds = float(len(runs := _runs_of(results)) + len(tries))
        with suppress(InputError, Passing):  # what cannot be read cannot be sent either, and that is reported
            if not self._identity:
                begun = filesystem.join(folder, _BEGUN)
                when = filesystem.read_bytes(begun).decode() if filesystem.exists(begun) else results.created
                self._identity = facts.identity(results.config_hash, when)
                self._params = facts.params(results.config)
            seconds += sum(filesystem.size(file) for file in files) / BYTES_PER_SECOND

        def send_rest() -> None:
            session = self._open()
            if not session.complete:
                self._send_new(folder, tries)
                for record, role in runs:
                    self._send_run(record, role)
                session.send_tags(tags(results))
                for file in files:
                    session.send_text(filesystem.name(file), filesystem.read_bytes(file).decode())
                session.send_tags({facts.COMPLETE: "true"})
            session.end("FINISHED")

        self._finish(send_rest, seconds)

    def _send_new(self, folder: str, work: Sequence[Work]) -> None:
        """Send the runs of `work` that have a record and have not been sent."""
        runs = filesystem.join(folder, RUNS)
        there = filesystem.listing(runs) if filesystem.exists(runs) else {}
        for one in work:
            path = one.path(folder)
            if one.run.key not in self._sent and filesystem.name(path) in there:
                record = read_run(path, one.hash)
                if record is not None:
                    self._send_run(record, "reference" if one.run.reference else "try" if one.run.tried else "compared")

    def _send_run(self, record: ComparedRun | DivergedRun, role: Role) -> None:
        """Send a run as a child of the comparison's MLflow run. Send nothing of what MLflow has."""
        is_judged = isinstance(record, ComparedRun) and record.diverged is not None  # only results.json says so
        if record.key in self._sent and not is_judged:
            return
        parent = self._open()
        session = Session(f"{parent.run_id}/{record.key}", record.key, parent=parent.run_id)
        status = "FINISHED" if record.diverged is None else "FAILED"
        try:
            if not session.complete:
                session.send_params(facts.params(record.config))
                if isinstance(record, ComparedRun):
                    points = metrics(record.history)
                    session.send_metrics(points)
                    session.send_metrics({max(points, default=0): facts.at_end(record)})
                session.send_tags({**tags_of_run(record, role), facts.COMPLETE: "true"})
            elif is_judged:
                session.send_tags(tags_of_run(record, role))
        except BaseException:
            status = "FAILED"
            raise
        finally:  # the thread's active run is the comparison's again
            session.end(status)
        self._sent.add(record.key)


def _runs_of(results: Results) -> list[tuple[ComparedRun | DivergedRun, Role]]:
    """Return the runs of results.json, with their roles."""
    compared = [*results.runs, *results.virtual, *results.diverged]
    return [*((record, "compared") for record in compared), *((record, "reference") for record in results.references)]


def metrics(history: Sequence[CurvePoint]) -> dict[int, dict[str, float]]:
    """Return the metrics of a learning curve by passes, with the names that `train` gives them."""
    return {point.passes: facts.of_point(point.train or {}, point.validation or {}) for point in history}


def tags_of_run(record: ComparedRun | DivergedRun, role: Role) -> dict[str, str]:
    """Return the facts of a run of a comparison that are neither a parameter nor a metric."""
    own = {"name": record.name, "key": record.key, "seed": str(record.seed), "role": role}
    found = {f"sparksplit.{key}": facts.text(value) for key, value in own.items()}
    found |= {} if record.diverged is None else {"sparksplit.error": facts.text(record.diverged)}
    if isinstance(record, ComparedRun):
        return {**facts.tags(record), **found}
    return {**found, "sparksplit.nodes": str(record.nodes)}


def tags(results: Results) -> Mapping[str, str]:
    """Return what a comparison has found: the answer in words, its decision, and the strategy to use with its keys."""
    answer, choice = results.answer, results.answer.choice
    found = {
        "command": results.command,
        "config_hash": results.config_hash,
        "data": results.data.path,
        "data.digest": results.data.digest,
        "seeds": str(len(results.seeds)),
        "diverged": str(len(results.diverged)),
        "answer": headline(results),
        "answer.decision": answer.decision,
    }
    if choice is not None:
        found |= {
            "answer.strategy": choice.name,
            "answer.nodes": str(choice.nodes),
            "answer.keys": facts.text(choice.settings),
        }
    return {f"sparksplit.{key}": facts.text(value) for key, value in found.items()}
