"""The driver's part of a search: propose trials, train several of them at the same time, and keep the best."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from hdfs_io import filesystem
from hdfs_io.publish import OtherUnfinished, Output
from sparksplit.base.errors import Diverged, InputError, NodeFailed, RunError, UsageError
from sparksplit.base.options import Options
from sparksplit.base.progress import begun_with, say
from sparksplit.searching.best import best_yaml
from sparksplit.searching.checked import Checked, check_around, checked
from sparksplit.searching.proposals import check_installed, proposal
from sparksplit.searching.pruning import NAME, Prune, bars
from sparksplit.searching.search_config import SearchConfig
from sparksplit.searching.search_record import BEST, SEARCH, TRIALS, SearchRecord, Trial, folder_of
from sparksplit.searching.space import trial_config
from sparksplit.spark.application import called
from sparksplit.spark.executors import executors_of
from sparksplit.spark.session import known_settings, spark_session
from sparksplit.spark.settings.requirements import NoExecutors, SettingError, has_executors
from sparksplit.training.callbacks.given import Given
from sparksplit.training.in_session import InSession
from sparksplit.training.progress_record import read_history
from sparksplit.training.run_record import RunRecord
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 1.0
"""Seconds between two looks at the executors that have become free."""
_REFUSED = 3
"""Trials that nodes may refuse, before any other trial has trained, until the search ends."""
_LEAVE_SECONDS = 30.0
"""Seconds for trials to end after an error or a signal, besides `checkpoint.grace`."""


def search(config: SearchConfig, options: Options) -> SearchRecord:
    """Do the trials of `config` that are not finished. Return the content of search.json.

    Raise UsageError for the user's mistakes, before Spark starts if they can be known by then. Values that only nodes
    can refuse, such as an argument of a layer, make a failed trial. Raise UsageError if nodes refuse the first trials.
    Raise RunError if a trial fails for any reason other than its values, a diverged loss or too little memory, or if
    all trials fail. The next call goes on from the finished trials.
    """
    check_installed()
    known = checked(config)
    output = Output(config.output, known.hash, "search", dict(known.paths), keys=dict(known.keys))
    try:
        with output.claimed(options.overwrite, {known.hash}) as decision:
            if decision == "done":
                say(f"{output.path} is up to date: it was made from the same input and configuration")
                return SearchRecord.read(output.path)
            return _filled(known, output, is_resumed=decision == "resume")
    except OtherUnfinished as error:
        raise UsageError(f"{error}; --overwrite replaces it") from error


def _filled(known: Checked, output: Output, is_resumed: bool) -> SearchRecord:
    """Do the missing trials and complete the output. Return the content of search.json."""
    config = known.config
    record = SearchRecord(metric=known.metric, higher=known.higher, wanted=config.search.trials)
    if not is_resumed:
        output.begin()
    else:
        output.go_on()
        if filesystem.exists(filesystem.join(output.folder, SEARCH)):
            record = SearchRecord.read(output.folder)
            say(f"{len(record.finished)} of {record.wanted} trials are there already")
    filesystem.make_folder(filesystem.join(output.folder, TRIALS))
    if len(record.finished) < record.wanted:
        check_around(known)
        executors = known.executors * (config.search.side_by_side or 1)
        on_executors = has_executors(known_settings())
        with spark_session(called("search", config.output), executors, nodes=on_executors) as spark:
            output.lease.tell(spark.sparkContext.applicationId)
            record = _Search(known, output, spark, record).to_end()
    best = record.best
    if best is None:
        told = next((f"; trial {each.number}: {each.error}" for each in record.trials if each.error), "")
        todo = "search other values with --overwrite"
        raise RunError(f"none of the {record.wanted} trials has a value of {record.metric}{told}; {todo}")
    output.fence.write_bytes(filesystem.join(output.folder, BEST), best_yaml(config, record, best).encode())
    output.complete()
    return record


@dataclass(frozen=True)
class _Ended:
    """How a trial's run has ended. record: run.json. error: what the run has raised."""

    number: int
    record: RunRecord | None = None
    error: BaseException | None = None


@dataclass
class _Search:
    """A search while it runs."""

    known: Checked
    output: Output
    spark: SparkSession
    record: SearchRecord
    threads: dict[int, threading.Thread] = field(default_factory=dict)
    """The running trials by number."""
    refused: list[Trial] = field(default_factory=list)
    """The trials of this call that nodes have refused."""
    used: dict[int, int] = field(default_factory=dict)
    """The executors of the running trials by number."""
    ended: SimpleQueue[_Ended] = field(default_factory=SimpleQueue)
    stopping: threading.Event = field(default_factory=threading.Event)

    def to_end(self) -> SearchRecord:
        """Do all trials. Return the record."""
        self._tidy()
        try:
            while len(self.record.finished) < self.record.wanted:
                while (trial := self._next()) is not None:
                    self._begin(trial)
                self.output.check()
                try:
                    self._finish(self.ended.get(timeout=_LOOK_SECONDS))
                except Empty:
                    continue
        finally:
            self._end_threads()
        return self.record

    def _next(self) -> Trial | None:
        """Return the next trial if there is room for it: one that an earlier call has begun, or a new one."""
        section, record = self.known.config.search, self.record
        # A run that goes on with fewer nodes would count the executors of the other trials as its own.
        most = 1 if self.known.config.min_nodes is not None else section.side_by_side or record.wanted
        if len(self.threads) >= most:
            return None
        left = [each for each in record.trials if each.state == "running" and each.number not in self.threads]
        if not left and len(record.trials) >= record.wanted:
            return None
        if self.threads and not self._has_room():
            return None
        if left:
            return left[0]
        number = len(record.trials) + 1
        keys = proposal(section.keys, record, number, self.known.config.seed)
        limits = {str(epoch): bar for epoch, bar in bars(record.trials).items()} if section.prune else {}
        trial = Trial(number=number, keys=keys, state="running", bars=limits)
        self._note(trial)
        return trial

    def _has_room(self) -> bool:
        """Return whether another trial has executors, beside the running trials."""
        context, needed = self.spark.sparkContext, sum(self.used.values()) + self.known.executors
        return has_executors(dict(context.getConf().getAll())) and needed <= executors_of(context)

    def _begin(self, trial: Trial) -> None:
        self.known.check_unchanged()
        config = trial_config(self.known.config, trial.keys, folder_of(self.output.folder, trial.number))
        say(f"trial {trial.number} of {self.record.wanted}: {values_of(trial)}")
        self.used[trial.number] = config.processes + config.feeders
        thread = threading.Thread(target=self._train, args=(trial, config), name=f"trial {trial.number}", daemon=True)
        self.threads[trial.number] = thread
        thread.start()

    def _train(self, trial: Trial, config: TrainConfig) -> None:
        """Train a trial, in a thread of its own."""
        section, limits = self.known.config.search, {int(epoch): bar for epoch, bar in trial.bars.items()}
        prune = Prune(self.known.metric, self.known.higher, limits)
        callbacks = Given([(NAME, prune)]) if section.prune else None
        name = f"trial {trial.number}"
        run_name = f"{filesystem.name(self.output.path)} {name}"
        within = InSession(self.spark, name, self._check, lambda: self._beside(trial.number), run_name)
        try:
            with begun_with(name):
                record = train(config, Options(), callbacks=callbacks, within=within)
            self.ended.put(_Ended(trial.number, record))
        except BaseException as error:
            self.ended.put(_Ended(trial.number, error=error))

    def _beside(self, number: int) -> int:
        """Return the number of executors that the trials beside trial `number` use."""
        return sum(count for other, count in dict(self.used).items() if other != number)

    def _check(self) -> None:
        """End the trial whose thread calls this, once the search ends."""
        if self.stopping.is_set():
            raise KeyboardInterrupt

    def _finish(self, ended: _Ended) -> None:
        """Take in the end of a trial. Raise its error if the search cannot go on without it."""
        self.threads.pop(ended.number).join()
        del self.used[ended.number]
        error, before = ended.error, self.record.best
        trial = next(each for each in self.record.trials if each.number == ended.number)
        if isinstance(error, Diverged) or (isinstance(error, NodeFailed) and error.memory):
            trial = replace(trial, state="failed", error=str(error))
        elif isinstance(error, OtherUnfinished):
            raise UsageError(
                f"trial {trial.number} has begun where nodes run otherwise (spark.master, executors); repeat the "
                "command there, or begin anew with --overwrite"
            ) from error
        elif isinstance(error, UsageError) and not isinstance(error, InputError | SettingError):
            trial = self._refused(trial, error)
        elif self.threads and any(isinstance(each, NoExecutors) for each in (error, getattr(error, "__cause__", None))):
            say(f"trial {trial.number}: {error}; it goes on when another trial has ended")
            return
        elif error is not None:
            say(f"trial {trial.number} has ended the search")
            raise error
        else:
            assert ended.record is not None
            trial = self._measured(trial, ended.record)
        self._note(trial)
        say(told(trial, self.record))
        for number in {trial.number, *([] if before is None else [before.number])}:
            self._remove_unless_best(number)

    def _refused(self, trial: Trial, error: UsageError) -> Trial:
        """Return the failed trial whose values the nodes have refused. Raise UsageError if its values are not to blame:
        the files have changed, or nodes refuse every trial."""
        self.known.check_unchanged()
        self.refused.append(trial)
        has_trained = any(each.state in ("complete", "pruned") for each in self.record.trials)
        if not has_trained and len(self.refused) >= min(_REFUSED, self.record.wanted):
            for each in self.refused:  # the next call tries them again
                self._note(replace(each, state="running"))
            raise UsageError(f"trial {trial.number} ({values_of(trial)}): {error}") from error
        return replace(trial, state="failed", error=str(error))

    def _measured(self, trial: Trial, record: RunRecord) -> Trial:
        """Return a trial with the values of its run."""
        history = read_history(folder_of(self.output.folder, trial.number))
        values = {each.epoch: (each.validation or {}).get(self.known.metric) for each in history}
        kept = record.best.epoch if record.best is not None and record.best.kept else history[-1].epoch
        is_pruned = record.stopped_early is not None and record.stopped_early.callback == NAME
        return replace(
            trial,
            state="pruned" if is_pruned else "complete",
            value=values[kept],
            epochs={str(epoch): value for epoch, value in values.items()},
            seconds=record.seconds.total,
        )

    def _note(self, trial: Trial) -> None:
        self.record = self.record.having(trial)
        self.output.fence.write_json(filesystem.join(self.output.folder, SEARCH), self.record.to_json())

    def _tidy(self) -> None:
        """Remove what a killed call has left of finished trials."""
        for trial in self.record.finished:
            self._remove_unless_best(trial.number)

    def _remove_unless_best(self, number: int) -> None:
        best, folder = self.record.best, folder_of(self.output.folder, number)
        if (best is None or best.number != number) and filesystem.exists(folder):
            self.output.fence.remove(folder)

    def _end_threads(self) -> None:
        """End the running trials, with a last checkpoint of each."""
        self.stopping.set()
        until = time.monotonic() + self.known.config.checkpoint.grace + _LEAVE_SECONDS
        for thread in self.threads.values():
            thread.join(max(0.0, until - time.monotonic()))


def values_of(trial: Trial) -> str:
    """Return the values of a trial's keys in words."""
    return ", ".join(f"{key} = {value}" for key, value in trial.keys.items())


def told(trial: Trial, record: SearchRecord) -> str:
    """Return the line about a trial that has ended."""
    best, name = record.best, f"trial {trial.number}"
    if trial.state == "failed":
        line = f"{name} failed: {trial.error}"
    else:
        value = "no number" if trial.value is None else f"{trial.value:.6g}"
        how = f", ended early after epoch {max(trial.by_epoch)}" if trial.state == "pruned" else ""
        line = f"{name}: {record.metric} {value}{how}"
    return line if best is None else f"{line}; best: trial {best.number} with {best.value:.6g}"
