"""The types of results.json. Users' scripts read the file as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from hdfs_io import filesystem
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError
from sparksplit.base.records import JsonObject, Record
from sparksplit.comparison.answer.content import Answer
from sparksplit.comparison.comparison_record import ComparedRun, DivergedRun, Place
from sparksplit.comparison.content_costs import CostModel
from sparksplit.comparison.content_table import OnHosts, Pair, Row, TimePair
from sparksplit.comparison.named import named
from sparksplit.comparison.numbers import Quantity
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.tuning.tuning_record import Tuning

RESULTS, REPORT = "results.json", "report.html"
FORMAT_VERSION = 10
"""The version of results.json and of the records in runs/. Files of another version are not used."""


def record_hash(run: str, timing: JsonObject) -> str:
    """Return the hash of everything that can change the record of a run, times included. run: the run's own hash.
    timing: as Run.timing."""
    # Default values are left out, so runs from before a timed key keep their hash.
    return digest({"run": run, "format_version": FORMAT_VERSION, **({"timing": timing} if timing else {})})


@dataclass(frozen=True)
class DataFacts:
    """The prepared data set."""

    path: str
    """The folder of the data set."""
    digest: str
    """The data set's digest."""
    rows: dict[str, int]
    """The number of rows by split: train, validation and test."""
    dependent: str | None = None
    """Why the rows of a split are no independent sample, as the manifest says; None where they are independent."""


@dataclass(frozen=True)
class Deciding:
    """The metric that decides, as known before any run."""

    name: str
    """The metric's name."""
    higher_is_better: bool
    """Whether higher values are better."""
    split: str
    """The split whose rows the metric is computed on: test or validation."""
    resolution: float | None
    """The smallest step by which the metric can change on these rows; None if unknown."""


@dataclass(frozen=True)
class MetricRange:
    """The range that differences of the metric are measured by."""

    untrained: float
    """The metric before training."""
    trained: float
    """The metric after training."""
    by: str
    """The runs that the range comes from."""


@dataclass(frozen=True)
class Metric(Deciding):
    """The metric that decides, with the range and the margin that the runs give."""

    share: float
    """The margin as a share of the range."""
    range: MetricRange | None
    """The metric's range; None where no run has it."""
    margin: float
    """Differences within the margin count as none, in the metric's unit; 0 where the range is unknown."""

    @classmethod
    def of(cls, metric: Deciding, share: float, whole: MetricRange | None) -> Self:
        """`metric` with a margin that is a `share` of its whole range."""
        margin = 0.0 if whole is None else share * abs(whole.trained - whole.untrained)
        return cls(**vars(metric), share=share, range=whole, margin=margin)


@dataclass(frozen=True)
class Epochs:
    """The number of epochs."""

    asked: int
    """Epochs that the configuration asks for."""
    run: int
    """Epochs that were run."""
    reason: str | None
    """Why more epochs were run than asked for; None where the two numbers are equal."""


@dataclass(frozen=True)
class Target:
    """A value of the metric on the validation rows that the runs should reach."""

    metric: str
    """The metric's name."""
    value: float
    """The value to reach."""
    by: str
    """Where the value comes from: the configuration, `single` on seeds of its own, or all runs.

    All runs give the value if no run of `single` on seeds of its own finished.
    """


@dataclass(frozen=True)
class Machine:
    """The driver's host."""

    cores: int | None
    """The number of logical CPUs; None if unknown."""
    memory_bytes: int
    """The host's memory, in bytes."""
    processor: str
    """The processor's model name."""
    system: str
    """The operating system and its release."""
    python: str
    """The version of Python."""
    gpus: list[str]
    """The names of a node's GPUs."""


@dataclass(frozen=True, kw_only=True)
class Results(Record):
    """The whole of results.json."""

    WHAT: ClassVar[str] = "what compare writes"
    REMEDY: ClassVar[str] = "compare again with --overwrite"

    format_version: int
    """The version of the format."""
    command: str
    """The command that wrote the results: compare."""
    sparksplit: str
    """The version of sparksplit."""
    created: str
    """The time at which the results were made (ISO 8601)."""
    config_hash: str
    """The hash of the configuration."""
    config: JsonObject
    """The comparison's configuration, with every key."""
    data: DataFacts
    """The prepared data set."""
    model: str
    """The model's builder."""
    metric: Metric
    """The metric that decides."""
    epochs: Epochs
    """The number of epochs."""
    seeds: list[int]
    """The seeds that were run."""
    looks: list[int]
    """The planned looks: the numbers of seeds after which the comparison checks whether the answer is decided."""
    nodes: list[int]
    """The numbers of nodes that were compared."""
    target: Target | None
    """The value of the metric that the runs should reach; None where no run was validated."""
    grid: list[int]
    """The numbers of passes after which all runs are looked at."""
    place: Place | None
    """Where the times that count were measured."""
    machine: Machine
    """The driver's host."""
    versions: dict[str, str]
    """The versions of sparksplit and of the packages that a result depends on."""
    runs: list[ComparedRun]
    """The runs on real nodes that finished."""
    virtual: list[ComparedRun]
    """The runs on virtual nodes that finished."""
    diverged: list[ComparedRun | DivergedRun]
    """The runs that diverged: they did not finish, or their metric was not a finite number at the end."""
    references: list[ComparedRun | DivergedRun]
    """Runs of `single` on seeds of its own. They give the range and the target, and nothing is compared with them."""
    table: list[Row]
    """The lines of the table: each strategy on each number of nodes."""
    pairs: list[Pair]
    """The differences of the metric between strategies."""
    times: list[TimePair]
    """The speed-ups between strategies."""
    cost_model: CostModel | None
    """The cost model; None without a run whose times count."""
    scale: list[OnHosts]
    """Each strategy on the hosts at hand, and predicted for as many hosts as nodes."""
    answer: Answer
    """The recommendation, its gain, and the open questions."""
    tuning: Tuning | None = None
    """The hyperparameter search; None without a search."""
    earlier: list[int] = field(default_factory=list)
    """The numbers of seeds of the finished comparisons that this comparison continues, in order."""
    within: str = ""
    """The prefix of the keys of `compare` in a command, such as `compare.` in `quickstart`; empty otherwise."""

    @property
    def finished_with(self) -> list[int]:
        """`earlier`, and the number of seeds of this comparison."""
        return [*self.earlier, len(self.seeds)]

    def named(self, name: str = SINGLE, nodes: int = 1) -> str:
        """A row in words. By default, the row that all gains are measured against."""
        if (name, nodes) == (SINGLE, 1) and self.tuning is not None:
            return "1 node with its best learning rate"
        return named(name, nodes)

    @property
    def target_in_words(self) -> str:
        """The target, such as `89.28 % validation accuracy`."""
        quantity = Quantity(self.metric.name)
        return f"{quantity.value(self.target.value if self.target else None)} validation {quantity.label}"

    @property
    def wrong_of_100(self) -> int:
        """An upper bound on how many of 100 answers are wrong: 5, plus 5 for each earlier comparison of several seeds.
        Its results were seen before more seeds were run."""
        return 5 * (1 + sum(seeds > 1 for seeds in self.earlier))

    @property
    def wrong_of_100_next(self) -> int:
        """`wrong_of_100` of a comparison that goes on from this one with more seeds."""
        return 5 * (1 + sum(seeds > 1 for seeds in self.finished_with))

    @property
    def all_finished(self) -> list[ComparedRun]:
        """All runs that did not diverge, with the references."""
        references = [run for run in self.references if isinstance(run, ComparedRun) and run.diverged is None]
        return [*self.runs, *self.virtual, *references]

    @classmethod
    def read(cls, folder: str) -> Self:
        """Read results.json in `folder`. Raise InputError if the file is missing, damaged, of another kind, or of
        another format version."""
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
    """The format version alone. It decides whether the rest can be read."""

    WHAT: ClassVar[str] = Results.WHAT
    REMEDY: ClassVar[str] = Results.REMEDY

    format_version: int
    """The version of the format."""
