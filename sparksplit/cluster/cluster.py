"""The driver's side of a run's nodes: start them, watch them, end them."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import Cancelled, NodeFailed, NotStarted, SparkStopped
from sparksplit.base.progress import Lines, say
from sparksplit.cluster import placing, requirements
from sparksplit.cluster.addresses import driver_addresses
from sparksplit.cluster.channel.limits import BEAT
from sparksplit.cluster.channel.line import Post
from sparksplit.cluster.channel.server import Channel
from sparksplit.cluster.deadlines import Limits
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.faults import Fault, bracketed, culprit, driver_at_fault
from sparksplit.cluster.last_words import level_of
from sparksplit.cluster.leaving import GRACE
from sparksplit.cluster.starting import Starting
from sparksplit.cluster.stuck import has_stopped
from sparksplit.network.listening import ANY, Network
from sparksplit.spark.jvm import limited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparksplit.cluster.beside_driver import Launchers
    from sparksplit.cluster.tensorflowonspark import Job

log = logging.getLogger(__name__)

POLL = 0.1
LOOK_SHARE = 9
"""The shortest pause after a look at all nodes, as a multiple of the time that the look took."""
ORDERLY = 3.0
"""Seconds that nodes have to end in order when the driver is interrupted, if they do not write a checkpoint first."""
ENDING = 20.0
"""Seconds within which everything must have ended when the cluster is closed."""
FREEING = 10.0
"""Seconds that Spark may take to name the executors that keep the tasks of a cancelled job."""
EXPLAIN = 1.0
"""Seconds between the end of the nodes' Spark job and the verdict. A node that knows the reason can report it
meanwhile."""


class NodeCluster:
    """N nodes of a Spark application, from start to end. A context manager.

    work: `package.module:function`, called on each node as `function(member)`. It returns a JSON-able dict.
    payload: JSON-able. Every node finds it as `member.payload`.
    limits: seconds without progress that count as a hang. `queue_timeout` limits the wait until executors are granted.
        `start_timeout` also limits the time after that, for executors, reservations and the start of all nodes.
    on_state: called in the driver's main thread with rank and state, whenever a node's heartbeat has arrived.
    spare: executors that the run needs in addition to the nodes' executors, for tasks beside the nodes.
    network: where the run's processes listen.
    avoid: hosts, as Spark names them, that hold no node if there are enough executors elsewhere.
    prefer: an executor for each node, by rank, if they are all there, and not on the hosts to avoid.
    grace: seconds that nodes have for a last checkpoint when the driver is interrupted.
    beside_driver: whether the nodes are processes of the driver's machine, because Spark's master has no executors.
        Without it, each node has an executor of its own.

    Raise ConfigError at once for settings that nodes cannot run with, such as fewer executors than nodes.
    """

    def __init__(
        self,
        spark: SparkSession,
        nodes: int,
        work: str,
        payload: dict[str, Any],
        *,
        limits: Limits = Limits(),  # noqa: B008
        on_state: Callable[[int, dict[str, Any]], None] | None = None,
        spare: int = 0,
        network: Network = ANY,
        avoid: Collection[str] = (),
        prefer: Sequence[placing.Executor] = (),
        grace: float = ORDERLY,
        beside_driver: bool = False,
    ) -> None:
        self._sc, self._beside_driver = spark.sparkContext, beside_driver
        if not beside_driver:
            requirements.check_settings(dict(self._sc.getConf().getAll()), nodes, spare)
        requirements.check_descriptors(nodes)
        self._spare, self._network, self._avoid, self._prefer = spare, network, avoid, prefer
        self._nodes, self._work, self._payload = nodes, work, payload
        self.limits, self._on_state = limits, on_state
        # In cluster deploy mode, a driver that is asked to stop is killed after a while.
        in_cluster = self._sc.getConf().get("spark.submit.deployMode") == "cluster"
        self._grace = min(grace, GRACE) if in_cluster else grace
        self._channel: Channel | None = None
        self._job: Job | Launchers | None = None
        self._seen = [0] * nodes
        self._fault: Fault | None = None
        self._looked = time.monotonic()
        self._stood_still = self._looked, 0.0
        """(when this process last went on after a standstill, seconds of the standstill)."""
        self.seconds: dict[str, float] = {}
        """Seconds of the start, by part: executors, reserve, nodes."""

    def __enter__(self) -> NodeCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def secret(self) -> str:
        """The secret that the driver and the nodes of this run share."""
        return self._open_channel().secret

    def tell(self, rank: int, name: str, value: Any) -> None:
        """Give node `rank` a JSON-able value. The node gets the value from `Member.heard(name)`."""
        self._open_channel().tell("node", ranks=[rank], told=name, value=value)

    def look_again(self) -> None:
        """Make `run` call its `meanwhile` now. Any thread may call this."""
        if self._channel is not None:
            self._channel.changed.set()

    def run(self, meanwhile: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
        """Start the nodes, wait for the result of each node, and return the results by rank.

        meanwhile: called several times a second. An error of `meanwhile` ends the run.

        Raise NodeFailed, with the rank, the host and the first cause, if a node or its executor fails or hangs. Raise
        UsageError, with the node's text, if a node's work raised UsageError. Raise RunError if there are too few
        executors. On KeyboardInterrupt, and so on Interrupted, first ask the nodes for an orderly end. Nothing is left
        running.
        """
        try:
            if self._channel is None:
                self.start()
            channel = self._open_channel()
            while not all(record.result is not None for record in channel.records):
                began = time.monotonic()
                self._look()
                meanwhile()
                # A thousand nodes always send something new. The pause leaves the core to the receiving of heartbeats.
                time.sleep(min(POLL, LOOK_SHARE * (time.monotonic() - began)))
                channel.changed.wait(POLL)
                channel.changed.clear()
            self._report_states()
            return [record.result or {} for record in channel.records]
        except KeyboardInterrupt:
            self._stop_orderly()
            raise
        finally:
            self.close()

    def start(self, check: Callable[[], None] = lambda: None, beside: Callable[[], int] = lambda: 0) -> None:
        """Return when every node's interpreter is running and has connected. `run` calls this if nobody has called it
        before.

        check: called meanwhile. An error of `check` ends the start.
        beside: returns how many executors the caller's other nodes use now.
        """
        begin, limit = time.monotonic(), self.limits.start_timeout
        patience, needs = self.limits.patience, not self._beside_driver
        granted = 0.0
        if needs:
            granted = requirements.await_executors(self._sc, self._nodes, patience, self._spare, check, beside)
        executors = time.monotonic()
        deadline, lines = executors + limit - granted, Lines()
        bind, known_as = driver_addresses(dict(self._sc.getConf().getAll()), self._network, self._beside_driver)
        self._channel = channel = Channel(bind, self._nodes, self._network, known_as)
        self._job = job = self._new_job(channel)

        starting = Starting(self._sc, job, channel)

        def watch(registered: int) -> None:
            check()
            self._look()
            starting.look()
            if (now := time.monotonic()) > deadline:
                raise starting.late(limit)
            have = f"{registered} of {self._nodes} nodes have registered"
            lines.say(f"waiting for nodes: {have}, {now - deadline + limit:.0f} of {limit:g} s (start_timeout)")

        def wait() -> None:
            nonlocal deadline
            check()
            deadline = time.monotonic() + limit - granted

        try:
            self._looked = time.monotonic()
            job.start(channel, watch, wait)
            starting.close()
            reserved = time.monotonic()
            for kind in ("launcher", "node"):
                self._await_all(kind, deadline, lines, check)
        except BaseException:
            starting.close()
            self.close()
            raise
        ready = time.monotonic()
        self.seconds = {"executors": executors - begin, "reserve": reserved - executors, "nodes": ready - reserved}

    def _new_job(self, channel: Channel) -> Job | Launchers:
        """Return what holds the nodes, not started yet."""
        post = Post(channel.address, channel.secret, -1, "task", channel.fingerprint, self._network)
        arguments = {"post": asdict(post), "size": self._nodes, "work": self._work, "payload": self._payload}
        name = f"sparksplit-{secrets.token_hex(4)}"
        # Imported here: a node that imports this package needs neither pyspark nor TensorFlowOnSpark.
        if self._beside_driver:
            from sparksplit.cluster.beside_driver import Launchers

            arguments["local_dirs"] = self._sc.getConf().get("spark.local.dir") or ""
            return Launchers(self._sc, name, self._nodes, arguments)
        from sparksplit.cluster.tensorflowonspark import Job

        return Job(self._sc, name, self._nodes, arguments, self._placed())

    def executors(self, nodes: int) -> list[placing.Executor]:
        """Return the executors of the first `nodes` nodes, by rank; none if Spark does not name them all in time."""
        held = {} if self._job is None else self._job.holders()
        if any(rank not in held for rank in range(nodes)):
            return []
        try:
            with limited(self._sc._gateway):
                there = {one.id: one for one in placing.executors_there(self._sc)}
        except Exception as error:  # the nodes may be anywhere
            log.debug("Spark does not name the executors of the nodes: %s", error)
            return []
        found = [there[held[rank]] for rank in range(nodes) if held[rank] in there]
        return found if len(found) == nodes else []

    def _placed(self) -> Sequence[placing.Executor] | None:
        """Return one executor for each node: the preferred ones, or without the hosts to avoid. None if any executors
        will do, or if too few executors are elsewhere."""
        if not (self._avoid or self._prefer):
            return None
        there = placing.executors_there(self._sc)
        if self._prefer and all(one in there and one.host not in self._avoid for one in self._prefer):
            return self._prefer
        if not self._avoid:
            return None
        chosen, hosts = placing.elsewhere(there, self._nodes, self._avoid), ", ".join(self._avoid)
        if chosen is not None:
            log.warning("%s: not used any more, because nodes have failed there repeatedly", hosts)
        elif len({one.host for one in there}) > 1:
            log.warning("%s: nodes have failed there repeatedly, but the other hosts have too few executors", hosts)
        return chosen

    def close(self) -> None:
        """End the nodes, their launchers, the job and the ports. May be called twice. Quick if all have ended."""
        channel, job = self._channel, self._job
        self._channel = self._job = None
        if channel is None:
            return
        try:
            finished = all(record.result is not None for record in channel.records)
            if job is not None:
                self._end(channel, job, gently=finished)
        finally:
            channel.close()
            self._log_last_words(channel)

    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise RuntimeError("the cluster is closed")
        return self._channel

    def _await_all(self, kind: str, deadline: float, lines: Lines, check: Callable[[], None]) -> None:
        channel, limit = self._open_channel(), self.limits.start_timeout
        while missing := [record for record in channel.records if getattr(record, kind) is None]:
            check()
            self._look()
            first, now = missing[0], time.monotonic()
            if now > deadline:
                what = f"node {first.rank} on {first.host} did not start within {limit:g} s (start_timeout)"
                raise NotStarted(what + bracketed(first.place), first.rank)
            have = f"node {first.rank} on {first.host} has not started"
            lines.say(f"waiting for nodes: {have}, {now - deadline + limit:.0f} of {limit:g} s (start_timeout)")
            channel.changed.wait(POLL)
            channel.changed.clear()

    def _look(self) -> None:
        """Raise the error of a failure, if there is one. Report new states."""
        channel, job, now = self._open_channel(), self._job, time.monotonic()
        if (stood_still := now - self._looked) > BEAT:
            # This process itself stood still, so its nodes' heartbeats are waiting unread.
            channel.forgive(stood_still)
            self._stood_still = now, stood_still
        self._looked = now
        with channel.lock:
            fault = culprit(channel.records, now, self.limits)
        if job is not None and (failure := job.failure) is not None:
            if job.cancelled:  # its nodes may report that they were ended
                raise Cancelled(failure)
            fault = fault or self._job_fault(channel, failure)
        if fault is not None:
            fault = driver_at_fault(fault, *self._stood_still)
            self._report_states()  # the last states of the nodes
            self._fault = fault
            error = fault.error()
            if isinstance(error, NodeFailed) and job is not None:
                if error.may_pass and has_stopped(self._sc):
                    raise SparkStopped(str(error))
                if fault.rank is not None:
                    error.executor_host = job.host_of(fault.rank)
            raise error
        self._report_states()
        self._looked = time.monotonic()

    def _report_states(self) -> None:
        channel = self._open_channel()
        if self._on_state is None:
            return
        for record in channel.records:
            with channel.lock:
                count, state = record.states, dict(record.state)
            if count > self._seen[record.rank]:
                self._seen[record.rank] = count
                self._on_state(record.rank, state)

    def _job_fault(self, channel: Channel, reason: str) -> Fault | None:
        """Return the fault if the Spark job has ended before all nodes have; None if there is no fault yet."""
        end = time.monotonic() + EXPLAIN
        while time.monotonic() < end:
            with channel.lock:
                fault = culprit(channel.records, time.monotonic(), self.limits)
            # Spark may have given up an executor's tasks while the node still writes its last checkpoint.
            leaving = any(record.state.get("leaving") and not record.ended for record in channel.records)
            if fault or leaving or all(record.result is not None for record in channel.records):
                return fault
            time.sleep(POLL)
        return Fault(Failure.JOB, end, None, "", f"Spark ended the nodes' job: {reason}")

    def _log_last_words(self, channel: Channel) -> None:
        """Log the last output of the node to blame."""
        fault, self._fault = self._fault, None
        if fault is None or fault.rank is None:
            return
        record = channel.records[fault.rank]
        for line in record.output:
            level = level_of(line, fault.failure, reported=record.error is not None)
            log.log(level, "node %d| %s", fault.rank, line)

    def _stop_orderly(self) -> None:
        """Ask the nodes to end, and wait for at most their grace."""
        channel = self._channel
        if channel is None:
            return
        channel.tell("node", stop=True)
        begin, told = time.monotonic(), False
        try:
            while any(name.startswith("node") for name in channel.alive()):
                with channel.lock:
                    saves = any(record.state.get("saves") for record in channel.records)
                if saves and not told and self._grace:
                    say(
                        f"stopping: the nodes have {self._grace:g} s to write a last checkpoint at their next "
                        "exchange; a second signal ends the run at once"
                    )
                    told = True
                if time.monotonic() - begin > (self._grace if saves else min(self._grace, ORDERLY)):
                    break
                time.sleep(0.02)
        finally:
            self._report_states()  # the states say how much is lost

    def _end(self, channel: Channel, job: Job | Launchers, gently: bool) -> None:
        """Wait for processes and job to end. Cancel and kill them at once or, if `gently`, after ORDERLY seconds."""
        begin = time.monotonic()
        patience = ORDERLY if gently else 0.0
        replaced: list[str] = []
        freeing: threading.Thread | None = None
        while channel.alive() or job.active():
            elapsed = time.monotonic() - begin
            if elapsed > ENDING:
                log.error("still there after %g s: %s", ENDING, ", ".join(channel.alive()) or "the nodes' Spark job")
                break
            if elapsed >= patience and freeing is None:
                # Cancel first, because Spark does not retry failed tasks of a cancelled job.
                job.cancel()
                hung = self._fault.rank if self._fault and self._fault.failure is Failure.STALLED else None
                channel.tell("launcher", kill=True, hung=hung)
                # A stopped launcher does not get this message. Its node gets the next one, and can end both.
                if not self._beside_driver:  # there, the launcher's process is this one
                    channel.tell("node", ranks=channel.silent_launchers(), end_launcher=True)
                freeing = threading.Thread(target=lambda: replaced.extend(job.free()), name="freeing", daemon=True)
                freeing.start()
            if replaced:
                log.warning("left to Spark: %s", ", ".join(channel.alive()) or "the nodes' Spark job")
                break
            time.sleep(0.02)
        if freeing is not None:
            freeing.join(FREEING)
