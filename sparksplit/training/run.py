"""The nodes of a run, as the driver sees them: started, watched, restarted; and the run, published at its end."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hdfs_io import ending
from hdfs_io.publish import Output
from sparksplit.base.errors import NodeFailed, NotStarted, Passing, RunError, SparksplitError
from sparksplit.base.progress import say
from sparksplit.cluster.placing import failing
from sparksplit.cluster.requirements import explained
from sparksplit.rows.ledger import Entry
from sparksplit.strategies.splits import BatchSplit, owned_by_rank
from sparksplit.training import checkpoints, report
from sparksplit.training.checkpoints import checkpoint_of
from sparksplit.training.decided import Choosing, Chosen
from sparksplit.training.display import RunDisplay
from sparksplit.training.in_session import ALONE, InSession
from sparksplit.training.inputs import RunInputs
from sparksplit.training.messages import NodeResult, Payload
from sparksplit.training.place import threads
from sparksplit.training.progress_record import EpochRecord, read_history
from sparksplit.training.recovery import attempts
from sparksplit.training.recovery.going_on import Reached
from sparksplit.training.recovery.missing import AllBack, Missing
from sparksplit.training.recovery.restarts import Restarts, in_seconds, may_pass, waited_out
from sparksplit.training.run_record import RUN, RunRecord
from sparksplit.training.tracking.tracker import Tracker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparksplit.cluster import NodeCluster

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trained:
    """results: the nodes' results, by rank.
    trained_on: the ledger entry of the rows of a pass, which each epoch in the ledger must have.
    launched: seconds of the attempt until the nodes' processes ran.
    """

    results: list[NodeResult]
    trained_on: Entry
    launched: float


@dataclass
class Run:
    """One command's work on a run.

    began: when the command began, in seconds of time.monotonic; later by as long as it has waited for another call.
    """

    spark: SparkSession
    inputs: RunInputs
    output: Output
    frame: DataFrame | None
    began: float
    before: attempts.Attempts = field(default_factory=attempts.Attempts)
    """The attempts of earlier commands, and their cost."""
    choosing: Choosing | None = None
    """The choice of the number of nodes; None if the strategy chooses nothing."""
    tracker: Tracker | None = None
    """Sends the run to MLflow; None if MLflow does not track it."""
    within: InSession = ALONE
    """The caller's part, if the caller makes several runs."""
    beside_driver: bool = False
    """Whether the one process of the run is on the driver's machine, because Spark's master has no executors."""
    restarts: int = 0
    epochs_said: int = 0
    """The last epoch whose line has been printed, by this command or the one that it resumes."""
    story: attempts.Attempts = field(init=False)
    failures: Counter[str] = field(default_factory=Counter)
    """Failures of nodes by host, as Spark names the host."""
    failed: SparksplitError | None = None
    """The error of the attempt before, until the present attempt's nodes have started."""
    from_number: int = field(init=False)
    """The number of the checkpoint that this command goes on from."""
    prepared: float = field(init=False)
    """Seconds of this command before its first attempt, and of the attempt that has ended with a choice."""
    begun: float = field(init=False)
    """When the present attempt began (time.monotonic)."""

    display: RunDisplay | None = None
    """The display of the states that the present attempt's nodes have reported."""
    missing: Missing | None = None
    """Looks after nodes whose executors are missing. None if the run does not go on without them."""

    def __post_init__(self) -> None:
        self.story, self.begun = self.before, self.began

    def to_end(self, checkpoint: str | None) -> RunRecord:
        """Run the nodes, restart from the last checkpoint if one fails, and publish run.json and _SUCCESS."""
        if checkpoint is not None:
            self.before, self.epochs_said = attempts.before(self.output.folder, checkpoint)
            self.story = self.before
        try:
            trained = self._train(checkpoint)
            self._end_attempt(None)
            return self._publish(trained)
        except BaseException as error:
            ending.begin()
            self._note_end(error)
            raise

    def reached(self) -> Reached:
        """Return how far the nodes of the present attempt have reported to be."""
        if self.display is None:
            return Reached()
        nodes = self.inputs.config.node_count if self.inputs.config.virtual else len(self.display.states)
        return Reached(self.display.reached, nodes if self.inputs.strategy.split.dealt_apart else None)

    def so_far(self) -> attempts.Attempts:
        """Return the run's attempts and cost so far, over all commands."""
        seconds = self.before.seconds + time.monotonic() - self.began
        return replace(self.story, restarts=self.before.restarts + self.restarts, seconds=seconds)

    def _train(self, checkpoint: str | None) -> Trained:
        """Return the nodes' results, after at most as many restarts as the configuration allows."""
        config, output = self.inputs.config, self.output
        given = Payload.of(
            config,
            self.inputs.data,
            output,
            self.inputs.sent(output.fence),
            output.config_hash,
            threads(config, self.spark),
            self.inputs.initial,
            None if self.inputs.callbacks is None else self.inputs.callbacks.sent,
        )
        given = replace(given, untested=self.within.spark is not None)
        if config.min_nodes is not None:
            shared = self.inputs.strategy.split.shared
            sc = self.spark.sparkContext
            self.missing = Missing(config, sc, output.folder, config.feeders, not shared, self.within.check)
        self.from_number, self.prepared = checkpoints.number_of(checkpoint), time.monotonic() - self.began
        restarts = Restarts(config.max_restarts, self.from_number)
        how = "start" if checkpoint is None and not self.story.story else "resume"
        while True:
            self.begun, since = time.monotonic(), time.time()
            nodes = config.node_count if self.choosing is None else self.choosing.nodes
            self.story = self.story.begun(how, nodes, checkpoint)
            try:
                if how in ("rejoin", "chosen"):
                    output.enclose()
                    checkpoint = checkpoint_of(output.folder, nodes)
                    self.story = self.story.on(nodes, checkpoint)
                now = self._note_begin()
                if self.missing is not None:
                    checkpoint = self._await_nodes(self.missing, checkpoint)
                before = self._before(now.seconds, checkpoint)
                payload = replace(
                    given, writing=output.fence.name, checkpoint=checkpoint, before=before, chooses=self.is_choosing
                )
                if self.present != config.processes:
                    payload = replace(payload, config={**given.config, "nodes": self.present, "min_nodes": None})
                return self._nodes(payload)
            except (AllBack, Chosen) as regrouped:
                how = self._regroup(regrouped, restarts)
            except (NodeFailed, Passing) as error:
                if isinstance(error, NotStarted) and how in ("restart", "rejoin", "chosen"):
                    error.may_pass = True  # Spark may not know yet that a host is gone (again)
                self.failed = explained(error, self.spark, since)
                gave_up = self._learn_from(self.failed)
                seconds = self._end_attempt(self.failed)
                if gave_up:  # a choice, and no restart
                    self.prepared += seconds
                    how = "chosen"
                else:
                    checkpoint, how = self._restart(restarts, self.failed, seconds), "restart"
            except RunError as error:
                if self.failed is None:
                    raise
                # For example, executors did not come back. Say first why they were lost.
                raise RunError(f"{self.failed}; the restart failed: {error}") from error

    def _before(self, seconds: float, checkpoint: str | None) -> dict[str, float]:
        """Return the run's seconds when an attempt begins from `checkpoint`, as in `spent.gone_on`. seconds: the sum so
        far."""
        # The seconds in this command's own checkpoints include its beginning.
        start = 0.0 if checkpoints.number_of(checkpoint) > self.from_number else self.prepared
        return {"start": start, "lost": seconds - start}

    def _regroup(self, regrouped: AllBack | Chosen, restarts: Restarts) -> str:
        """Note that an attempt has ended without a failure. Return why the next one begins, as Attempt.how."""
        seconds = self._end_attempt(regrouped)
        if isinstance(regrouped, Chosen):
            self.prepared += seconds
            return "chosen"
        restarts.has_reached(regrouped.reached, seconds)
        say(f"{regrouped}; the run goes on with them from its last checkpoint")
        return "rejoin"

    def _learn_from(self, error: SparksplitError) -> bool:
        """Note what a failed attempt says about hosts. Return whether all nodes train now, as they cannot measure."""
        if (host := getattr(error, "executor_host", None)) is not None:
            self.failures[host] += 1
        states = [] if self.display is None else self.display.states
        if self.choosing is None or not self.choosing.cannot_measure(error, states):
            return False
        say(str(error))
        self._waited_out(self.choosing.take_all, error)
        return True

    @property
    def is_choosing(self) -> bool:
        """Whether the number of nodes is still to be chosen."""
        return self.choosing is not None and self.choosing.is_open

    @property
    def present(self) -> int:
        """Number of processes in the present attempt."""
        if self.choosing is not None:
            return self.choosing.nodes
        return self.inputs.config.processes if self.missing is None else self.missing.present

    def _await_nodes(self, missing: Missing, checkpoint: str | None) -> str | None:
        """Wait for executors, and decide how many nodes start. Return the checkpoint that these nodes go on from."""
        there, config = missing.await_nodes(), self.inputs.config
        if there < config.processes:
            checkpoint = checkpoint_of(self.output.folder, there)
        missing.goes_from(checkpoint)
        if missing.present < config.processes:
            self.story = self.story.on(missing.present, checkpoint)
            attempts.note(self.output.fence, self.so_far())
        if missing.present < there:
            say(
                f"{checkpoint} lies within a round that {missing.present} nodes began; "
                f"the run goes on with {missing.present} of {config.processes} nodes until a round has ended"
            )
        elif there < config.processes:
            say(
                f"{there} of {config.processes} nodes have executors after {config.start_timeout:g} s; "
                "the run goes on with them (min_nodes)"
            )
        return checkpoint

    def _restart(self, restarts: Restarts, failed: SparksplitError, seconds: float) -> str | None:
        """Wait as long as is due after a failed attempt. Return the checkpoint to go on from. Raise the failure if the
        run is to end.

        seconds: how long the failed attempt has lasted.
        """
        if not (may_pass(failed) and restarts.most):
            raise failed

        def enclosed() -> str | None:
            self.output.enclose()
            return checkpoint_of(self.output.folder, self.inputs.config.node_count)

        checkpoint = self._waited_out(enclosed, failed)
        pause = restarts.after(failed, seconds, checkpoints.number_of(checkpoint))
        if pause is None:
            raise failed
        what = f"restart {restarts.tries} of {restarts.most} from {checkpoint or 'the beginning'}"
        say(f"{failed}; {what}{in_seconds(pause)}")
        self.within.sleep(pause)
        self.restarts += 1
        return checkpoint

    def _waited_out(self, act: Callable[[], str | None], failed: SparksplitError) -> str | None:
        """Return the result of `act`, which a restart after `failed` needs. Try again after errors that may pass."""
        try:
            return waited_out(act, self.inputs.config.max_restarts, f"{failed}; ")
        except SparksplitError as error:
            rank = getattr(failed, "rank", None)
            raise NodeFailed(f"{failed}; it cannot be restarted: {error}", rank) from error

    def _end_attempt(self, error: BaseException | None) -> float:
        """Note the end of the present attempt. Return how many seconds it has lasted."""
        seconds = time.monotonic() - self.begun
        self.story = self.story.ended(seconds, error)
        return seconds

    def _publish(self, trained: Trained) -> RunRecord:
        """Write run.json and complete the output. Raise RunError if the ledger is not exact."""
        inputs, output, first, cost = self.inputs, self.output, trained.results[0], self.so_far()
        if names := report.undefined(first.test or {}):
            say(f"test: {', '.join(names)}: not finite; null in {RUN}")
        around = report.Circumstances(
            run_id=f"{output.config_hash}-{int(time.time())}",
            config_hash=output.config_hash,
            restarts=cost.restarts,
            application_id=str(output.lease.holder.application_id),
            total=cost.seconds,
            launched=trained.launched,
            attempts=cost.story,
            choice=None if self.choosing is None else self.choosing.choice,
            ran="beside the driver" if self.beside_driver else None,
            callbacks=None if inputs.callbacks is None else inputs.callbacks.sent.names,
            own_model=None if inputs.own is None else inputs.own.identity,
        )
        rounds = waited_out(lambda: read_history(output.folder), inputs.config.max_restarts)
        results = [first.with_rounds(rounds), *trained.results[1:]]
        record = report.record(inputs.config, inputs.strategy, inputs.data, results, trained.trained_on, around)
        waited_out(lambda: record.write(output.fence), inputs.config.max_restarts)
        if not record.ledger.exact:
            raise RunError(f"the ledger is not exact: {record.to_json()['ledger']}; this is a defect of sparksplit")
        attempts.forget(output.fence)
        output.complete()
        return record

    def _note_begin(self) -> attempts.Attempts:
        """Write down that an attempt begins. Return the attempts so far."""
        attempts.note(self.output.fence, now := self.so_far())
        if self.tracker is not None:
            self.tracker.began(self.output.config_hash, now.story[0].begun, self.inputs.config)
        return now

    def _note_end(self, error: BaseException) -> None:
        """Write down the cost of a failed attempt, if the output is still this command's."""
        self._end_attempt(error)
        try:
            attempts.note(self.output.fence, self.so_far())
        except Exception as other:
            log.debug("what this attempt has cost is not kept: %s", other)

    def _meanwhile(self, cluster: NodeCluster, go_on: Callable[[], None] = lambda: None) -> None:
        """Look at the output and at missing nodes while nodes run. Choose their number once they have measured.

        go_on: what else is to be done, once the number of nodes is known. Raise Chosen if fewer nodes are to train.
        """
        self.output.check()
        self.within.check()
        if self.missing is not None:
            self.missing.look()
        if self.choosing is not None and self.choosing.is_open:
            assert self.display is not None
            self.choosing.look(cluster, self.display.states[0].get("step_seconds"))
        if not self.is_choosing:
            go_on()

    def _rows_before(self, payload: Payload) -> Entry | None:
        """Return `Fed.content` of the DataFrame's rows that the checkpoint was trained on; None if there is none."""
        if self.frame is None or payload.checkpoint is None:
            return None
        fed = checkpoints.progress_of(payload.checkpoint).fed
        return None if fed is None else Entry.from_json(fed)

    def _nodes(self, payload: Payload) -> Trained:
        """Make one attempt."""
        from sparksplit.cluster import NodeCluster

        config, data, split = self.inputs.config, self.inputs.data, self.inputs.strategy.split

        def said(epoch: EpochRecord) -> None:
            self.epochs_said = epoch.epoch
            if self.tracker is not None:
                self.tracker.epoch(epoch)

        prints = not self.beside_driver
        with RunDisplay(self.present, self.epochs_said, said, self.within.name, prints) as display:
            self.display = display
            if config.input_mode == "spark" and self.frame is None:
                copies = self.present if split.every_row else 1
                display.rows_to_feed = copies * data.manifest.splits["train"].rows
            with NodeCluster(
                self.spark,
                self.present,
                "sparksplit.training.node.main:work",
                payload.to_json(),
                limits=config.limits,
                network=config.network,
                on_state=display.state,
                spare=config.feeders,
                grace=config.checkpoint.grace,
                avoid=failing(self.failures),
                prefer=self.choosing.executors if self.choosing is not None else (),
                beside_driver=self.beside_driver,
            ) as cluster:
                cluster.start(self.within.check, self.within.beside)
                launched, self.failed = time.monotonic() - self.begun, None
                rows = data.manifest.splits["train"]
                trained_on = Entry(rows.rows, rows.checksum)
                if config.input_mode == "spark":
                    from sparksplit.handoff.feeding import Feeding

                    # One process that plays all virtual nodes gets the lanes of all of them.
                    dealt = BatchSplit() if config.virtual else split
                    owned = owned_by_rank(dealt, data.manifest.lanes, self.present)
                    before, states = self._rows_before(payload), display.states
                    with Feeding(self.spark, data, self.frame, cluster, states, owned, before) as feeding:
                        results = cluster.run(lambda: self._meanwhile(cluster, feeding.go_on))
                        trained_on = feeding.fed()
                else:
                    results = cluster.run(lambda: self._meanwhile(cluster))
        return Trained([NodeResult.from_json(each, "a node's result") for each in results], trained_on, launched)
