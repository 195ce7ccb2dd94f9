"""What crosses between a comparison's driver and its nodes, and what its folder keeps until there is a results.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.base.records import Record
from sparksplit.training.messages import Payload
from sparksplit.training.progress_record import CurvePoint, Values
from sparksplit.training.record import RunRecord


@dataclass(frozen=True, kw_only=True)
class RunPayload(Payload):
    """One run of a cluster's list. record: the path of its record's file. restarts: how often it was retried."""

    key: str
    way: str
    record: str
    restarts: int


@dataclass(frozen=True, kw_only=True)
class ClusterPayload(Record):
    """What a comparison's nodes are given: runs with equally many processes, one after the other, and what to measure.

    cluster: as in Place. probe: whether to measure training alone; sweep: whether to measure sums. handed: whether
    Spark has handed over rows before in this application.
    """

    runs: list[RunPayload]
    threads: int
    application_id: str
    cluster: str
    probe: bool
    sweep: bool
    handed: bool


@dataclass(frozen=True)
class Place:
    """Where times were measured: they are comparable where all of it is the same. cluster: Spark's master and, if it is
    on one host, that. hosts: what the nodes ran on, each kind once. threads: TensorFlow's, on each node. input_mode:
    where the nodes had their rows from."""

    cluster: str
    hosts: tuple[str, ...]
    threads: int
    input_mode: str = "tensorflow"

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''} a node"
        handed = ["rows handed over by Spark"] if self.input_mode == "spark" else []
        return f"{self.cluster} ({'; '.join([*self.hosts, threads, *handed])})"


@dataclass(frozen=True)
class HandOff:
    """Spark's handing over of the training rows to the nodes of a cluster, once for all of its runs. seconds: from the
    opening of the nodes' ports until the last node could read its rows. rows: by rank, how many it was handed, repeated
    ones included. runs: how many runs the cluster was given. first: whether it was the first of its Spark application,
    for which executors must load what it takes."""

    seconds: float
    rows: tuple[int, ...]
    runs: int
    first: bool


@dataclass(frozen=True)
class Probe:
    """Training alone on one node, for that many seconds."""

    rows_per_second: float
    seconds: float


@dataclass(frozen=True)
class SweepPoint:
    """The median seconds of a sum of that many bytes over the nodes."""

    nodes: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class NodeMeasured(Record):
    """What a cluster's first node measured before its runs. gpus: the names of its GPUs."""

    gpus: list[str]
    probe: Probe | None = None
    sweep: list[SweepPoint] | None = None


@dataclass
class Measured(Record):
    """measured.json: the same for all clusters together. sweeps: by the number of nodes."""

    WHAT: ClassVar[str] = "what compare has measured"
    REMEDY: ClassVar[str] = "remove it, and it is measured again"
    FILE: ClassVar[str] = "measured.json"

    gpus: list[str] | None = None
    probe: Probe | None = None
    sweeps: dict[str, list[SweepPoint]] | None = None

    @classmethod
    def read(cls, folder: str) -> Measured:
        """What has been kept in `folder`; nothing if there is no file. Raises InputError if it is damaged."""
        path = filesystem.join(folder, cls.FILE)
        return cls.parse(filesystem.read_bytes(path), path) if filesystem.exists(path) else cls()

    def write(self, comparison: Fence) -> None:
        """Keep it in the folder of `comparison`."""
        comparison.write_json(filesystem.join(comparison.folder, self.FILE), self.to_json())

    def add(self, new: NodeMeasured) -> bool:
        """Take in what is not there yet; returns whether there was anything."""
        nodes = str(new.sweep[0].nodes) if new.sweep else None
        if self.gpus is None:
            self.gpus = new.gpus
        if new.probe is not None and self.probe is None:
            self.probe = new.probe
        elif new.sweep and nodes not in (self.sweeps or {}):
            self.sweeps = {**(self.sweeps or {}), str(nodes): new.sweep}
        else:
            return False
        return True


_RUN = "the record of a run of compare"
_REMEDY = "remove it, and the run is made again"


@dataclass(frozen=True, kw_only=True)
class ComparedRun(RunRecord):
    """A run that finished: like run.json, with the curve of what was learnt. way: what reports call its strategy.
    place: where its times were measured. untrained: the values before training on the rows that decide; only of
    references. jackknife: by metric, how far each lane's rows move it, as training.node.jackknife has it; None where
    that was not asked for, as of references. handoff: of its cluster, where Spark handed over the rows; its seconds are
    not among the run's. diverged: why it counts as diverged all the same; only in results.json."""

    WHAT: ClassVar[str] = _RUN
    REMEDY: ClassVar[str] = _REMEDY

    key: str
    way: str
    seed: int
    history: list[CurvePoint]
    place: Place | None = None
    untrained: Values | None = None
    jackknife: dict[str, list[float]] | None = None
    handoff: HandOff | None = None
    diverged: str | None = None


@dataclass(frozen=True, kw_only=True)
class DivergedRun(Record):
    """A run that ended because its loss was no longer a number. diverged: the error."""

    WHAT: ClassVar[str] = _RUN
    REMEDY: ClassVar[str] = _REMEDY

    key: str
    way: str
    config_hash: str
    diverged: str
    nodes: int
    virtual: bool
    seed: int


@dataclass(frozen=True, kw_only=True)
class _Stamp(Record):
    """What tells whose record it is, and of which kind."""

    WHAT: ClassVar[str] = _RUN
    REMEDY: ClassVar[str] = _REMEDY

    config_hash: str
    diverged: str | None = None


def read_run(path: str, config_hash: str) -> ComparedRun | DivergedRun | None:
    """The record in the file `path`; None if it is of another configuration. Raises InputError for a damaged one."""
    content = filesystem.read_bytes(path)
    stamp = _Stamp.parse(content, path)
    if stamp.config_hash != config_hash:
        return None
    kind = ComparedRun if stamp.diverged is None else DivergedRun
    return kind.parse(content, path)
