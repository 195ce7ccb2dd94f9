"""What results.json holds, as types; the report and users' scripts read it as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from hdfs_io import filesystem
from sparksplit.base.records import JsonObject, Record
from sparksplit.comparison.record import ComparedRun, DivergedRun, SweepPoint

RESULTS = "results.json"


@dataclass(frozen=True)
class DataFacts:
    """The prepared data set. rows: how many train, validation and test have."""

    path: str
    digest: str
    rows: dict[str, int]


@dataclass(frozen=True)
class Metric:
    """The metric that decides. margin: differences within it count as none. split: on whose rows, test or validation.
    resolution: the smallest step by which it can change there; None if that cannot be told."""

    name: str
    higher_is_better: bool
    margin: float
    split: str
    resolution: float | None


@dataclass(frozen=True)
class Epochs:
    """The epochs that were asked for, and those that were run. reason: why there are more of these."""

    asked: int
    run: int
    reason: str | None


@dataclass(frozen=True)
class Target:
    """A value of the metric on the validation rows. by: where it comes from: the configuration, `single`, or all runs
    if none of `single` finished."""

    metric: str
    value: float
    by: str


@dataclass(frozen=True)
class Machine:
    """The driver's host; gpus: a node's."""

    cores: int | None
    memory_bytes: int
    processor: str
    system: str
    python: str
    gpus: list[str]


@dataclass(frozen=True)
class Interval:
    """A mean over the seeds and its 95 % interval; None where there is none."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ToTarget:
    """Means over the runs that reached the target, `reached` of `of`. seconds: None on virtual nodes."""

    seconds: float | None
    passes: float | None
    reached: int
    of: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table: means over the finished runs of a way on that many nodes; None for what none of them tells,
    or virtual nodes cannot. time: seconds by what they were spent on."""

    way: str
    nodes: int
    virtual: bool
    runs: int
    diverged: int
    hosts: int | None
    strategy: str | None
    passes: int | None
    updates: int | None
    syncs: int | None
    bytes_per_node: float | None
    seconds: float | None
    rows_per_second: float | None
    efficiency: float | None
    to_target: ToTarget | None
    time: dict[str, float] | None
    metric: Interval


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A way against another, over the seeds that both finished, out of those that both were given."""

    way: str
    nodes: int
    virtual: bool
    against: str
    against_nodes: int
    quantity: str
    seeds: int
    of: int
    mean: float
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True)
class Check:
    """A prediction beside the measurement, in seconds; error: as a fraction of the measurement."""

    way: str
    nodes: int
    measured: float
    predicted: float
    error: float


@dataclass(frozen=True)
class Prediction:
    """Seconds to the target at a network's rate; passes and seconds are None if not every run reached it. gbit_per_s:
    None for the network at hand, where it was measured."""

    way: str
    nodes: int
    passes: float | None
    reached: int
    of: int
    gbit_per_s: float | None
    seconds: float | None
    measured: bool


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Seconds by what they depend on, where they come from, and what they predict."""

    seconds_per_row: float
    seconds_per_step: float
    sweep: list[SweepPoint]
    latency_seconds: float
    seconds_per_byte: float
    seconds_per_exchange: float
    contention: float
    text: str
    checks: list[Check]
    predictions: list[Prediction]


@dataclass(frozen=True, kw_only=True)
class OnHosts:
    """A way on the hosts at hand or, predicted, on as many hosts as nodes with a slow link."""

    way: str
    nodes: int
    runs: int
    diverged: int
    hosts: int | None
    link: str
    seconds: float | None
    measured: bool


@dataclass(frozen=True)
class Original:
    """One of the figures that the question began with."""

    who: str
    nodes: int
    seconds: float
    efficiency: float


@dataclass(frozen=True)
class Ours:
    """The same figure for a way that was measured."""

    way: str
    nodes: int
    runs: int
    diverged: int
    seconds: float | None
    efficiency: float


@dataclass(frozen=True)
class Scale:
    """Scale-up against scale-out, and the original figures beside ours."""

    rows: list[OnHosts]
    original: list[Original]
    ours: list[Ours]


@dataclass(frozen=True)
class Answer:
    """Sentences, the conditions under which they hold, and how sure they are."""

    text: list[str]
    conditions: str
    certainty: str


@dataclass(frozen=True, kw_only=True)
class Results(Record):
    """The whole of results.json. created: when, in ISO 8601. model: its builder. runs, virtual: those that finished.
    diverged: those that did not, or whose metric was not a finite number at the end."""

    WHAT: ClassVar[str] = "what compare writes"
    REMEDY: ClassVar[str] = "compare again with --overwrite"

    format_version: int
    command: str
    sparksplit: str
    created: str
    config_hash: str
    config: JsonObject
    data: DataFacts
    model: str
    metric: Metric
    epochs: Epochs
    seeds: list[int]
    nodes: list[int]
    target: Target | None
    machine: Machine
    versions: dict[str, str]
    runs: list[ComparedRun]
    virtual: list[ComparedRun]
    diverged: list[ComparedRun | DivergedRun]
    table: list[Row]
    pairs: list[Pair]
    cost_model: CostModel | None
    scale: Scale
    answer: Answer

    @classmethod
    def read(cls, folder: str) -> Self:
        """The content of results.json in `folder`. Raises InputError if it is missing, damaged or something else's."""
        path = filesystem.join(folder, RESULTS)
        return cls.parse(filesystem.read_bytes(path), path)
