"""The driver's part of a comparison: plan, do the missing runs, analyse, and report."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.config import digest
from sparksplit.base.errors import Diverged, NodeFailed, NotStarted, Passing, RunError
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.comparison import results as analysis
from sparksplit.comparison.analysis.needed import undecided
from sparksplit.comparison.checks import check
from sparksplit.comparison.compare_config import CompareConfig, adds_seeds
from sparksplit.comparison.comparison_record import (
    ClusterPayload,
    ComparedRun,
    DivergedRun,
    Measured,
    NodeMeasured,
    RunPayload,
    read_run,
)
from sparksplit.comparison.content import REPORT, RESULTS, Results
from sparksplit.comparison.machine import cluster_name
from sparksplit.comparison.plan import Run, plan
from sparksplit.comparison.progress import ComparisonDisplay, Pace, say_plan
from sparksplit.comparison.report import render
from sparksplit.comparison.tracker import ComparisonTracker
from sparksplit.comparison.tuning import choice, said
from sparksplit.comparison.tuning.tries import tuned
from sparksplit.comparison.tuning.tuning_record import Tuning
from sparksplit.comparison.work import RUNS, Search, Work
from sparksplit.dataset.manifest import Manifest
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.spark.application import called
from sparksplit.spark.session import spark_session
from sparksplit.strategies.splits import BatchSplit, owned_together
from sparksplit.training.inputs import open_data
from sparksplit.training.messages import Payload
from sparksplit.training.own_models import with_compiled
from sparksplit.training.place import threads
from sparksplit.training.recovery.restarts import in_seconds, waited_out
from sparksplit.training.tracking.tracker import tracking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compare(config: CompareConfig, options: Options) -> Results:
    """Do the runs of `config` that have no record yet. Return the content of results.json.

    Raise UsageError for the user's mistakes. Raise RunError if a run fails for any reason other than a diverged loss.
    Finished runs are kept, and the next call continues from there.
    """
    is_tracked, active = tracking(config)
    tracker = ComparisonTracker(config.output, active) if is_tracked else None
    try:
        results, folder, search = _compared(config, options, tracker)
    except BaseException as error:
        if tracker is not None:
            tracker.failed(error)
        raise
    if tracker is not None:
        tracker.finished(folder, results, search.work)
    return results


def _compared(
    config: CompareConfig, options: Options, tracker: ComparisonTracker | None
) -> tuple[Results, str, Search]:
    """Return the content of results.json, the folder of the complete output, and the hyperparameter search."""
    config, _own = with_compiled(config)
    runs = plan(config)
    data = open_data(runs[0].config)
    check(config, runs, data)
    search = Search.of(config, runs, data)
    work = [Work.of(run, data) for run in runs]
    config_hash = _hash(config, work, search)
    inputs = {key: path for one in work for key, path in one.inputs.paths.items()}
    keys = config.keys | {key: value for one in work for key, value in one.inputs.contents.items()}

    def extends(then: Mapping[str, Any], made: str | None) -> bool:
        return adds_seeds(then, keys) and _hash_with(config, data, then) == made

    output = Output(config.output, config_hash, "compare", {**inputs, **config.own_file}, keys=keys, extends=extends)
    # With --overwrite, only runs that an earlier call of this command has finished count as done.
    going_on = {config_hash} if options.overwrite else None
    with output.claimed(options.overwrite, going_on) as decision:
        if decision == "done":
            say(f"{output.path} is up to date: it was made from the same input and configuration")
            return Results.read(output.path), output.path, search
        if decision == "resume" or (not options.overwrite and filesystem.exists(filesystem.join(output.folder, RUNS))):
            output.go_on()
            if decision != "resume":  # the sums may be of other keys, such as tls
                output.fence.remove(filesystem.join(output.folder, Measured.FILE))
        else:
            output.begin(_measured_in(output.path) if output.extending else ())
        say_plan(config, runs)
        earlier = Results.read(output.path).finished_with if output.extending else ()
        if tracker is not None:
            tracker.began(output, config)
        comparison = _Comparison(config, data, output, work, earlier=earlier, tracker=tracker)
        return _fill(comparison, search), output.path, search


def _measured_in(finished: str) -> Iterator[str]:
    """Yield the files of a finished comparison that a comparison with more seeds starts from. Runs with a changed
    configuration are still repeated."""
    if filesystem.exists(filesystem.join(finished, Measured.FILE)):
        yield Measured.FILE
    if filesystem.exists(runs := filesystem.join(finished, RUNS)):
        yield from (f"{RUNS}/{name}" for name in filesystem.listing(runs))


def _hash_with(config: CompareConfig, data: PreparedDataSet, then: Mapping[str, Any]) -> str:
    """Return the hash that the comparison would have with the seeds of the keys `then`."""
    other = config.model_copy(update={key: then.get(key) for key in ("seeds", "max_seeds")})
    runs = plan(other)
    return _hash(other, [Work.of(run, data) for run in runs], Search.of(other, runs, data))


def _hash(config: CompareConfig, work: Sequence[Work], search: Search) -> str:
    """Return the hash of everything that can change a comparison's results. Times are results, too."""
    return digest(
        {"command": "compare", "runs": [one.hash for one in work], "margin": config.margin,
         "looks": config.looks, "metric": config.metric,
         "metric_better": config.metric_better, "target": config.target,
         **({"tries": [one.hash for one in search.work]} if search.work else {})}
    )  # fmt: skip


def _fill(comparison: _Comparison, search: Search) -> Results:
    """Do the pending runs and complete the output. Return the content of results.json."""
    output, spark = comparison.output, None
    with ExitStack() as stack:
        if search.work:
            spark = _tune(comparison, search, stack)
        for seeds in comparison.config.looks:
            comparison.seeds = seeds
            work = comparison.planned()
            if pending := comparison.pending():
                if len(pending) < len(work) and spark is None:
                    say(f"{len(work) - len(pending)} of {len(work)} runs are there already")
                if spark is None:
                    # Count the runs of later looks too: after a resume, they may need more executors than this look.
                    spark = _started(stack, output, comparison.pending(comparison.work))
                comparison.run(spark)
            results = comparison.results()
            open_ones = undecided(results)
            if not open_ones:
                break
            if seeds != comparison.config.looks[-1]:
                say(f"{open_ones} differences are undecided after {seeds} seeds: more are run")
    output.fence.write_json(filesystem.join(output.folder, RESULTS), results.to_json())
    output.fence.write_bytes(filesystem.join(output.folder, REPORT), render(results).encode())
    trained = [run for run in (*results.runs, *results.virtual, *results.references) if isinstance(run, ComparedRun)]
    inexact = [run.key for run in trained if not run.ledger.exact]
    if inexact:
        raise RunError(f"the ledger is not exact in {', '.join(inexact)}; this is a defect of sparksplit")
    output.complete()
    return results


def _started(stack: ExitStack, output: Output, work: Sequence[Work]) -> SparkSession:
    """Start a Spark session with executors for all of `work`. The session ends with `stack`."""
    spark = stack.enter_context(
        spark_session(called("compare", output.path), max(one.run.processes + one.run.config.feeders for one in work))
    )
    output.lease.tell(spark.sparkContext.applicationId)
    return spark


def _tune(comparison: _Comparison, search: Search, stack: ExitStack) -> SparkSession | None:
    """Do the pending tries, and give the comparison's runs the best values. Return the Spark session; None if no try
    was pending."""
    config, data, spark = comparison.config, comparison.data, None
    trying = _Comparison(
        config, data, comparison.output, search.work, later=comparison.work, tracker=comparison.tracker
    )
    if pending := trying.pending():
        if len(pending) < len(search.work):
            say(f"{len(search.work) - len(pending)} of {len(search.work)} tries are there already")
        spark = _started(stack, comparison.output, [*pending, *comparison.work])
        trying.run(spark)
    runs = [one.run for one in comparison.work]
    tuning = choice.tuning(search.tries, trying.records, analysis.deciding(config, data.manifest), runs)
    say(said.cost(tuning))
    comparison.work = [Work.of(run, data) for run in tuned(runs, choice.best(search.tries, tuning))]
    comparison.measured, comparison.tuning = trying.measured, tuning
    comparison.pace, comparison.handed = trying.pace, trying.handed
    return spark


def _cluster_of(spark: SparkSession) -> str:
    """Return the name of the Spark session's cluster."""
    context = spark.sparkContext
    is_yarn = context.master == "yarn"
    return cluster_name(context.master or "", context._jsc.hadoopConfiguration().get("fs.defaultFS") if is_yarn else "")


def _samples_rows(run: Run, manifest: Manifest) -> bool:
    """Whether a run measures how much its metric depends on the choice of rows.

    The run does not if rows depend on each other. Groups of lanes are random groups of rows, and would hide this
    dependence.
    """
    return not (run.reference or run.tried) and manifest.dependent is None


@dataclass
class _Comparison:
    """A comparison, or its hyperparameter search, while it runs.

    later: runs that follow all of `work`, for the estimate of the remaining time. pace: the time that runs have taken.
    """

    config: CompareConfig
    data: PreparedDataSet
    output: Output
    work: Sequence[Work]
    later: Sequence[Work] = ()
    tuning: Tuning | None = None
    records: dict[str, ComparedRun | DivergedRun] = field(default_factory=dict)
    seeds: int | None = None
    """The number of seeds to run so far; None: all seeds."""
    pace: Pace = field(default_factory=Pace)
    handed: bool = False
    """Whether Spark has handed over rows already."""
    earlier: Sequence[int] = ()
    """The numbers of seeds of the finished comparisons that this comparison continues."""
    tracker: ComparisonTracker | None = None
    """Sends the runs to MLflow; None if MLflow does not track them."""

    def __post_init__(self) -> None:
        self.measured = Measured.read(self.output.folder)
        probes = [one.probe for one in self.measured.clusters if one.probe is not None]
        if probes:
            self.pace.rate = probes[-1].rows_per_second

    def planned(self) -> Sequence[Work]:
        """Return the runs of the seeds so far."""
        if self.seeds is None:
            return self.work
        return [one for one in self.work if one.run.is_within(self.config.seed, self.seeds)]

    def pending(self, work: Sequence[Work] | None = None) -> list[Work]:
        """Return the runs without a record, in the order of the plan. Read the existing records. work: the runs to look
        at, instead of the runs of the seeds so far."""
        pending = []
        for one in self.planned() if work is None else work:
            path = self._path(one)
            if one.run.key not in self.records and filesystem.exists(path):
                record = read_run(path, one.hash)
                if record is not None:
                    self.records[one.run.key] = record
            if one.run.key not in self.records:
                pending.append(one)
        return pending

    def run(self, spark: SparkSession) -> None:
        """Do the pending runs. Runs that can share a cluster do so. After a failure, a new cluster starts."""
        runs, later = ([one.run for one in some] for some in (self.pending(), self.later))
        rows = self.data.manifest.splits["train"].rows
        with ComparisonDisplay(runs, rows, later, self.pace) as display:
            while pending := self._pending_now():
                self._track()
                together = list(next(itertools.groupby(pending, lambda one: one.run.cluster))[1])
                display.begin([one.run for one in together])
                try:
                    self._cluster(spark, together, display)
                except (NodeFailed, Passing) as error:
                    # The first run without a record has failed. The last heartbeat may be older than the failure.
                    left = {one.run.key for one in self._pending_now()}
                    one = next((one for one in together if one.run.key in left), None)
                    if one is not None:
                        self._failed(one, error)
        self._track()

    def _track(self) -> None:
        """Send the runs that have finished to MLflow, without waiting."""
        if self.tracker is not None:
            self.tracker.look(self.output.folder, self.work)

    def _pending_now(self) -> list[Work]:
        """Return the pending runs. Wait while the file system is unavailable."""
        return waited_out(self.pending, self.work[0].run.config.max_restarts)

    def _cluster(self, spark: SparkSession, work: list[Work], display: ComparisonDisplay) -> None:
        from sparksplit.cluster import NodeCluster

        self.output.enclose()
        first, nodes = work[0].run.config, work[0].run.processes
        states: list[dict[str, Any]] = [{} for _ in range(nodes)]

        def heard(rank: int, state: dict[str, Any]) -> None:
            states[rank] = state
            self._heard(rank, state, display)

        sent = work[0].inputs.sent(self.output.fence)
        payload = ClusterPayload(
            runs=[self._payload(one, sent) for one in work],
            threads=threads(first, spark),
            application_id=str(spark.sparkContext.applicationId),
            cluster=_cluster_of(spark),
            measured=[one for one in self.measured.clusters if one.nodes == nodes],
            handed=self.handed,
        )
        with NodeCluster(
            spark,
            nodes,
            "sparksplit.comparison.node:work",
            payload.to_json(),
            limits=first.limits,
            network=first.network,
            on_state=heard,
            spare=first.feeders,
        ) as cluster:
            if first.input_mode != "spark":
                cluster.run(self.output.check)
                return
            from sparksplit.handoff.feeding import Feeding

            def meanwhile() -> None:
                self.output.check()
                feeding.go_on()

            cluster.start()
            # Each node gets the rows that any of its runs reads, once. A process with virtual nodes gets all rows.
            splits = [BatchSplit() if one.run.config.virtual else one.inputs.strategy.split for one in work]
            owned = owned_together(splits, self.data.manifest.lanes, nodes)
            self.handed = True
            with Feeding(spark, self.data, None, cluster, states, owned) as feeding:
                cluster.run(meanwhile)

    def _heard(self, rank: int, state: dict[str, Any], display: ComparisonDisplay) -> None:
        if rank == 0 and state.get("measured"):
            self._keep(NodeMeasured.from_json(state["measured"], "node 0"), display)
        before = display.current
        display.state(rank, state)
        if display.current != before:
            self._track()

    def _keep(self, new: NodeMeasured, display: ComparisonDisplay) -> None:
        if not self.measured.add(new):
            return
        if new.probe is not None:
            self.pace.rate = new.probe.rows_per_second
            display.say_estimate(self.pace.rate)
        self.measured.write(self.output.fence)

    def _payload(self, one: Work, sent: Mapping[str, str]) -> RunPayload:
        """sent: as from `RunInputs.sent`. All runs have the same model, which is written once."""
        own = {} if one.inputs.own is None else {"model.build": sent["model.build"]}
        common = replace(
            Payload.of(
                one.run.config, self.data, self.output, {**one.inputs.sources, **own}, one.hash, 0, one.inputs.initial
            ),
            record_only=True,
            untrained=one.run.reference,
            jackknife=_samples_rows(one.run, self.data.manifest),
            untested=one.run.tried,
        )
        path = self._path(one)
        return RunPayload(**vars(common), key=one.run.key, name=one.run.name, record=path, restarts=one.restarts.tries)

    def _failed(self, one: Work, error: NodeFailed | Passing) -> None:
        """Record a diverged run. Try again after any other failure, as often as the configuration allows."""
        if isinstance(error, NotStarted) and any(each.restarts.tries for each in self.work):
            error.may_pass = True  # Spark may not have noticed yet that a host is gone
        if isinstance(error, Diverged):
            say(f"{one.run.key}: {error}; it counts as diverged")
            record = DivergedRun(
                key=one.run.key,
                name=one.run.name,
                config_hash=one.hash,
                diverged=str(error),
                nodes=one.run.config.node_count,
                virtual=one.run.config.virtual,
                seed=one.run.config.seed,
                config=one.run.config.model_dump(mode="json"),
            )
            self.output.fence.write_json(self._path(one), record.to_json())
        elif (pause := one.restarts.after(error, 0.0, -1)) is None:
            if self.output.extending or self.output.folder == self.output.path:  # else --overwrite, which starts over
                say("finished runs are kept; the same command, without --overwrite, goes on from there")
            raise error
        else:
            what = f"restart {one.restarts.tries} of {one.restarts.most}"
            say(f"{one.run.key}: {error}; {what}{in_seconds(pause)}")
            time.sleep(pause)

    def _path(self, one: Work) -> str:
        return one.path(self.output.folder)

    def results(self) -> Results:
        """Return the content of results.json."""
        self.pending()
        records, references = (
            [self.records[one.run.key] for one in self.planned() if one.run.reference == which]
            for which in (False, True)
        )
        created = datetime.now(UTC).isoformat(timespec="seconds")
        planned, config_hash = [one.run for one in self.work], self.output.config_hash
        seeds = self.seeds or self.config.looks[-1]
        return analysis.results(
            self.config, planned, self.data, records, references, self.measured, created, config_hash, seeds,
            self.tuning, self.earlier,
        )  # fmt: skip
