"""The messages between a comparison's driver and its nodes, and the files of its folder before results.json."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.base.records import Json, Record
from sparksplit.training.messages import Payload
from sparksplit.training.progress_record import CurvePoint, Values
from sparksplit.training.run_record import RunRecord


@dataclass(frozen=True, kw_only=True)
class RunPayload(Payload):
    """One run of a cluster's list."""

    key: str
    """The run's key, which no other run of the comparison has."""
    name: str
    """The strategy, as reports call it."""
    record: str
    """The path of the file of the run's record."""
    restarts: int
    """How often the run was retried."""


@dataclass(frozen=True, kw_only=True)
class ClusterPayload(Record):
    """The work of a cluster's nodes: runs with equally many processes, and measurements before the runs."""

    runs: list[RunPayload]
    """The runs, one after the other."""
    threads: int
    """TensorFlow's threads per operation on each node."""
    application_id: str
    """The id of the Spark application."""
    cluster: str
    """The cluster's name, as in Place."""
    measured: list[NodeMeasured]
    """What the comparison has measured on clusters with as many nodes. It is not measured again in the same place."""
    handed: bool
    """Whether Spark has handed over rows before in this application."""


@dataclass(frozen=True)
class Place:
    """Where times were measured, and with which software. `holds` says which times may be compared."""

    cluster: str
    """Spark's master, with the host for a local master, and with the file system for YARN."""
    hosts: tuple[str, ...]
    """The kinds of hosts that the nodes ran on, each kind once: processor, cores and GPUs."""
    threads: int
    """TensorFlow's threads per operation on each node."""
    input_mode: str = "tensorflow"
    """How the nodes got their rows: tensorflow (each node read them) or spark (Spark handed them over)."""
    versions: tuple[str, ...] = ()
    """The versions that a run's speed depends on, such as `tensorflow 2.21.0`. Earlier records have none."""

    def holds(self, other: Place) -> bool:
        """Whether times from `other` may be compared with times from this place.

        `other` may lack some kinds of hosts: on a cluster with several kinds, fewer nodes run on fewer kinds.
        """
        return set(other.hosts) <= set(self.hosts) and replace(other, hosts=self.hosts) == self

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''} a node"
        handed = ["rows handed over by Spark"] if self.input_mode == "spark" else []
        return f"{self.cluster} ({'; '.join([*self.hosts, threads, *handed, *self.versions])})"


@dataclass(frozen=True)
class HandOff:
    """Spark's hand-off of the training rows to the nodes of a cluster, once for all of the cluster's runs."""

    seconds: float
    """Seconds from the opening of the nodes' ports until the last node could read its rows."""
    rows: tuple[int, ...]
    """The number of rows that each node was handed, by rank, repeated rows included."""
    runs: int
    """The number of the cluster's runs."""
    first: bool
    """Whether the hand-off was the first of its Spark application. A first hand-off takes longer to begin."""


@dataclass(frozen=True)
class Probe:
    """A measurement of training alone on one node."""

    rows_per_second: float
    """Throughput in rows/s."""
    seconds: float
    """Seconds that the measurement took."""


@dataclass(frozen=True)
class SweepPoint:
    """A measurement of sums over the nodes."""

    nodes: int
    """The number of nodes."""
    bytes: int
    """Bytes that are summed."""
    seconds: float
    """The median seconds of a sum."""


@dataclass(frozen=True)
class NodeMeasured(Record):
    """The measurements of a cluster's first node, before the runs."""

    place: Place
    """Where they were measured."""
    nodes: int
    """The number of the cluster's nodes."""
    gpus: list[str]
    """The names of the node's GPUs."""
    probe: Probe | None = None
    """Training alone; None if it was not measured."""
    sweep: list[SweepPoint] | None = None
    """Sums over the nodes; None if they were not measured."""


@dataclass
class Measured(Record):
    """measured.json: the measurements of all clusters together."""

    WHAT: ClassVar[str] = "what compare has measured"
    REMEDY: ClassVar[str] = "remove it, and it is measured again"
    FILE: ClassVar[str] = "measured.json"

    clusters: list[NodeMeasured] = field(default_factory=list)
    """The measurements of each cluster that has measured anything, in the order of time."""

    @classmethod
    def read(cls, folder: str) -> Measured:
        """Return the measurements in `folder`; empty without a file. Raise InputError if the file is damaged."""
        path = filesystem.join(folder, cls.FILE)
        return cls.parse(filesystem.read_bytes(path), path) if filesystem.exists(path) else cls()

    def write(self, comparison: Fence) -> None:
        """Write measured.json into the folder of `comparison`."""
        comparison.write_json(filesystem.join(comparison.folder, self.FILE), self.to_json())

    def add(self, new: NodeMeasured) -> bool:
        """Add `new` if it has measurements that are missing here. Return whether it has."""
        if new in self.clusters or (new.probe is None and new.sweep is None):
            return False
        self.clusters.append(new)
        return True

    def at(self, place: Place | None) -> list[NodeMeasured]:
        """Return the measurements that may be used with times of `place`; all of them if it is None."""
        return [one for one in self.clusters if place is None or place.holds(one.place)]

    def sums(self, place: Place | None) -> list[SweepPoint]:
        """Return the sums over the nodes in `place`. The latest count for each number of nodes."""
        by_nodes = {one.nodes: one.sweep for one in self.at(place) if one.sweep is not None}
        return [point for sweep in by_nodes.values() for point in sweep]


_RUN = "the record of a run of compare"
_REMEDY = "remove it, and the run is made again"


@dataclass(frozen=True, kw_only=True)
class ComparedRun(RunRecord):
    """A run that finished: like run.json, with the learning curve."""

    WHAT: ClassVar[str] = _RUN
    REMEDY: ClassVar[str] = _REMEDY

    key: str
    """The run's key, which no other run of the comparison has."""
    name: str
    """The strategy, as reports call it."""
    seed: int
    """The run's seed."""
    history: list[CurvePoint]
    """The learning curve: a point for each round."""
    place: Place | None = None
    """Where the run's times were measured."""
    untrained: Values | None = None
    """The loss and the metrics before training, on the rows that decide; only references have them."""
    jackknife: dict[str, list[float]] | None = None
    """How far each lane's rows move a metric, by metric (training.node.jackknife); None where not measured."""
    handoff: HandOff | None = None
    """The cluster's hand-off, where Spark handed over the rows. The run's seconds do not include the hand-off."""
    diverged: str | None = None
    """Why the finished run counts as diverged: its metric was not a finite number. Only results.json has the reason."""

    def is_timed_in(self, place: Place | None) -> bool:
        """Whether the run's times count among the times of `place`."""
        if self.place is None or place is None:
            return self.place is place
        return place.holds(self.place)


@dataclass(frozen=True, kw_only=True)
class DivergedRun(Record):
    """A run that ended because its loss was no longer a finite number."""

    WHAT: ClassVar[str] = _RUN
    REMEDY: ClassVar[str] = _REMEDY

    key: str
    """The run's key, which no other run of the comparison has."""
    name: str
    """The strategy, as reports call it."""
    config_hash: str
    """The hash of the run's configuration."""
    diverged: str
    """The error that ended the run."""
    nodes: int
    """The number of nodes. If `virtual`, the nodes are virtual."""
    virtual: bool
    """Whether the nodes are virtual."""
    seed: int
    """The run's seed."""
    config: dict[str, Json] = field(default_factory=dict)
    """The run's configuration, with every key; empty in records of earlier versions."""


@dataclass(frozen=True, kw_only=True)
class _Stamp(Record):
    """The fields that show the kind of a record and its configuration."""

    WHAT: ClassVar[str] = _RUN
    REMEDY: ClassVar[str] = _REMEDY

    config_hash: str
    """The hash of the run's configuration."""
    diverged: str | None = None
    """The error that ended the run; None for a run that finished."""


def read_run(path: str, config_hash: str) -> ComparedRun | DivergedRun | None:
    """Read the record in the file `path`; None if it has another configuration. Raise InputError if the file is
    damaged."""
    content = filesystem.read_bytes(path)
    stamp = _Stamp.parse(content, path)
    if stamp.config_hash != config_hash:
        return None
    kind = ComparedRun if stamp.diverged is None else DivergedRun
    return kind.parse(content, path)
