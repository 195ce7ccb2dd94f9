"""What results.json holds, as types; the report and users' scripts read it as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.base.records import JsonObject, Record
from sparksplit.comparison.content_costs import CostModel
from sparksplit.comparison.record import ComparedRun, DivergedRun, Place
from sparksplit.comparison.tuning.record import Tuning

RESULTS = "results.json"
FORMAT_VERSION = 7
"""The version of results.json and of the records in runs/; those of another version are not used."""


@dataclass(frozen=True)
class DataFacts:
    """The prepared data set. rows: how many train, validation and test have. dependent: why those of a split are no
    independent sample, as the manifest has it; None where they count as one."""

    path: str
    digest: str
    rows: dict[str, int]
    dependent: str | None = None


@dataclass(frozen=True)
class Deciding:
    """The metric that decides, as it is known before anything runs. split: on whose rows, test or validation.
    resolution: the smallest step by which it can change there; None if that cannot be told."""

    name: str
    higher_is_better: bool
    split: str
    resolution: float | None


@dataclass(frozen=True)
class MetricRange:
    """What differences of the metric are measured by: its values before and after training. by: where they come
    from."""

    untrained: float
    trained: float
    by: str


@dataclass(frozen=True)
class Metric(Deciding):
    """The same with what the runs tell. share: of the range; margin: that share in the metric's unit, differences
    within which count as none; 0 where no run tells the range."""

    share: float
    range: MetricRange | None
    margin: float

    @classmethod
    def of(cls, metric: Deciding, share: float, found: MetricRange | None) -> Self:
        """`metric` where a margin is a `share` of the range that was found."""
        margin = 0.0 if found is None else share * abs(found.trained - found.untrained)
        return cls(**vars(metric), share=share, range=found, margin=margin)


@dataclass(frozen=True)
class Epochs:
    """The epochs that were asked for, and those that were run. reason: why there are more of these."""

    asked: int
    run: int
    reason: str | None


@dataclass(frozen=True)
class Target:
    """A value of the metric on the validation rows. by: where it comes from: the configuration, `single` on seeds that
    nothing is compared on, or all runs if none of those finished."""

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
    """Medians over all runs, of which those that missed the target, or diverged, took infinitely long: None where that
    is the median. `reached` of `of` reached it. seconds: of the runs whose times count; None on virtual nodes. low,
    high: of the 95 % interval of what a run takes in the geometric mean, if all reached it; None where that cannot be
    told."""

    seconds: float | None
    passes: float | None
    reached: int
    of: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table: means over the finished runs of a way on that many nodes; None for what none of them tells,
    or virtual nodes cannot. timed: of how many runs the times count; the others were measured elsewhere. seconds, time:
    of these, in all and by what they were spent on; seconds_low, seconds_high: of the 95 % interval of their geometric
    mean. handoff: seconds until Spark had handed over the rows, once for all runs of a cluster, and not among those of
    the runs; None where nodes read them themselves. controls: the ways on one node that it is compared with besides
    `single`."""

    way: str
    nodes: int
    virtual: bool
    runs: int
    diverged: int
    timed: int
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
    controls: list[str] = field(default_factory=list)
    seconds_low: float | None = None
    seconds_high: float | None = None
    handoff: float | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A way against another, over the seeds that both finished, out of those that both were given. low, high: of the
    95 % interval of the mean by itself; pooled: whether the spread is the one that several ways share. verdict: better,
    worse, no difference, not worse (by more than the margin) or undecided, over all pairs together. error: the mean's
    standard error; rows_error: the part of it that comes of which rows there are, None where that is not known, and the
    interval is over the seeds alone."""

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
    pooled: bool
    verdict: str
    error: float | None = None
    rows_error: float | None = None


TO_TARGET, IN_ALL = "to the target", "in all"
"""What a TimePair is about: the seconds to the target, or those of all passes, of which each way makes as many."""


@dataclass(frozen=True, kw_only=True)
class TimePair:
    """How many times as fast as another a way is, as the geometric mean over the seeds for which both have a time that
    counts, out of those that both were given. low, high: of its 95 % interval by itself. at_least: what all ways that
    are decided to be faster are at least, together with 95 %; None if that is not above 1. verdict: faster, slower or
    undecided, over all pairs together. error: the standard error of the mean of the logarithms."""

    way: str
    nodes: int
    against: str
    against_nodes: int
    what: str
    seeds: int
    of: int
    times: float
    low: float | None
    high: float | None
    at_least: float | None
    pooled: bool
    verdict: str
    error: float | None = None


@dataclass(frozen=True)
class Choice:
    """One of the few ways worth having. role: fastest, cheapest or best. goal: what the seconds and node-hours (the
    seconds of all nodes, in hours) are of: to the target, or in all; None where the best has no time that counts.
    metric: the mean."""

    role: str
    way: str
    nodes: int
    goal: str
    seconds: float | None
    node_hours: float | None
    metric: float


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
class Answer:
    """Sentences, the conditions under which they hold, and how sure they are. headline: what they stand or fall with:
    whether each way was tuned."""

    text: list[str]
    conditions: str
    certainty: str
    headline: str = ""


@dataclass(frozen=True, kw_only=True)
class Results(Record):
    """The whole of results.json. created: when, in ISO 8601. model: its builder. looks: the numbers of seeds
    after which it was to be seen whether all is decided. grid: the passes after which all runs
    are looked at. place: where the times that count were measured. runs, virtual: those that finished. diverged: those
    that did not, or whose metric was not a finite number at the end. references: runs of `single` that nothing is
    compared with. tuning: None where nothing was tuned."""

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
    looks: list[int]
    nodes: list[int]
    target: Target | None
    grid: list[int]
    place: Place | None
    machine: Machine
    versions: dict[str, str]
    runs: list[ComparedRun]
    virtual: list[ComparedRun]
    diverged: list[ComparedRun | DivergedRun]
    references: list[ComparedRun | DivergedRun]
    table: list[Row]
    pairs: list[Pair]
    times: list[TimePair]
    frontier: list[Choice]
    cost_model: CostModel | None
    scale: list[OnHosts]
    answer: Answer
    tuning: Tuning | None = None

    @property
    def all_finished(self) -> list[ComparedRun]:
        """The runs that did not diverge, those that nothing is compared with among them."""
        references = [run for run in self.references if isinstance(run, ComparedRun) and run.diverged is None]
        return [*self.runs, *self.virtual, *references]

    @classmethod
    def read(cls, folder: str) -> Self:
        """The content of results.json in `folder`. Raises InputError if it is missing, damaged, something else's, or of
        another version."""
        path = filesystem.join(folder, RESULTS)
        return cls.parse(filesystem.read_bytes(path), path)

    @classmethod
    def parse(cls, content: bytes | str, place: str) -> Self:
        version = _Version.parse(content, place).format_version
        if version != FORMAT_VERSION:
            raise InputError(
                f"{place}: has format version {version}, and this sparksplit reads {FORMAT_VERSION}; {cls.REMEDY}"
            )
        return super().parse(content, place)


@dataclass(frozen=True, kw_only=True)
class _Version(Record):
    """What tells whether the rest can be read."""

    WHAT: ClassVar[str] = Results.WHAT
    REMEDY: ClassVar[str] = Results.REMEDY

    format_version: int
