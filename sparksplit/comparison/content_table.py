"""The types of the analysis in results.json: the table, the differences, the speed-ups and the hosts."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparksplit.base.records import JsonObject


@dataclass(frozen=True)
class Interval:
    """A mean over the seeds and its 95 % confidence interval."""

    mean: float | None
    """The mean; None without a value."""
    low: float | None
    """The lower end of the confidence interval; None without an interval."""
    high: float | None
    """The upper end of the confidence interval; None without an interval."""


@dataclass(frozen=True)
class ToTarget:
    """The cost of reaching the target."""

    seconds: float | None
    """The geometric mean of the seconds of the runs whose times count. None if a run missed the target or diverged, and
    on virtual nodes."""
    passes: float | None
    """The median number of passes over all runs. A run that missed the target or diverged counts as infinitely long. An
    infinite median is None."""
    reached: int
    """The number of runs that reached the target."""
    of: int
    """The number of all runs."""
    low: float | None = None
    """The lower end of the 95 % confidence interval of `seconds`; None where it is unknown."""
    high: float | None = None
    """The upper end of the confidence interval; None where `low` is None."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table: means over the finished runs of a strategy on a number of nodes.

    Means of times are geometric, so the ratio of two lines' times is their speed-up if both have the same seeds. A
    field is None where no run has a value. Fields of time are also None on virtual nodes.
    """

    name: str
    """The strategy with its settings, as reports call it, such as `local, H = 32, nesterov`."""
    nodes: int
    """The number of nodes."""
    virtual: bool
    """Whether the nodes are virtual."""
    runs: int
    """The number of runs that finished."""
    diverged: int
    """The number of runs that diverged."""
    timed: int
    """The number of runs whose times count. Times that were measured in another place do not count."""
    hosts: int | None
    """The number of hosts that the nodes ran on."""
    strategy: str | None
    """The value of the key `strategy`."""
    passes: int | None
    """Passes over the training rows in a run."""
    updates: int | None
    """Updates in a run."""
    syncs: int | None
    """Exchanges between nodes in a run."""
    bytes_per_node: float | None
    """Mean bytes that a node sent in a run."""
    seconds: float | None
    """The geometric mean of the seconds of training, with exchanges and waiting for rows."""
    rows_per_second: float | None
    """Throughput of all nodes together in rows/s."""
    efficiency: float | None
    """The `seconds` of `single`, divided by `nodes` times `seconds`: 1 is a perfect speed-up."""
    to_target: ToTarget | None
    """The cost of reaching the target."""
    time: dict[str, float] | None
    """Mean seconds of the runs whose times count, by activity."""
    metric: Interval
    """The mean of the metric that decides, with its confidence interval."""
    controls: list[str] = field(default_factory=list)
    """The strategies on one node that this line is compared with, besides `single`."""
    seconds_low: float | None = None
    """The lower end of the 95 % confidence interval of `seconds`."""
    seconds_high: float | None = None
    """The upper end of the 95 % confidence interval of `seconds`."""
    settings: JsonObject = field(default_factory=dict)
    """The keys of `train` that make this line, by dotted key. Keys with the value of the comparison's configuration are
    left out."""
    handoff: float | None = None
    """Mean seconds until Spark had handed over the rows; None where nodes read the rows themselves.

    Spark hands over the rows once for all runs of a cluster. No run's seconds include the hand-off.
    """


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The difference of a metric between two strategies, paired by seed."""

    name: str
    """The strategy, as reports call it."""
    nodes: int
    """The number of the strategy's nodes."""
    virtual: bool
    """Whether the nodes are virtual."""
    against: str
    """The strategy that `name` is compared with."""
    against_nodes: int
    """The number of nodes of `against`."""
    quantity: str
    """The name of the metric."""
    seeds: int
    """The number of seeds with which both strategies finished."""
    of: int
    """The number of seeds that both strategies were given."""
    mean: float
    """The mean difference over the seeds: `name` minus `against`, in the metric's unit."""
    low: float | None
    """The lower end of the mean's own 95 % confidence interval; None without an interval."""
    high: float | None
    """The upper end of the mean's own 95 % confidence interval; None without an interval."""
    pooled: bool
    """Whether the standard deviation is estimated from several strategies together."""
    verdict: str
    """better, worse, no difference, not worse (by more than the margin) or undecided, over all pairs together."""
    error: float | None = None
    """The standard error of the mean."""
    rows_error: float | None = None
    """The part of `error` that comes from the choice of the rows.

    None where that part is unknown; the confidence interval is then over the seeds alone.
    """
    enough: bool = False
    """Whether the difference is decided well enough to recommend the row of `name`: against `single`, that the row does
    not learn worse by more than the margin; against another row on one node, that it learns better by more than the
    margin."""


TO_TARGET, IN_ALL = "to the target", "in all"
"""The values of TimePair.what: the seconds to the target, or the seconds of all passes."""


@dataclass(frozen=True, kw_only=True)
class TimePair:
    """The speed-up of a strategy over another strategy, paired by seed."""

    name: str
    """The strategy, as reports call it."""
    nodes: int
    """The number of the strategy's nodes."""
    against: str
    """The strategy that `name` is compared with."""
    against_nodes: int
    """The number of nodes of `against`."""
    what: str
    """The seconds that are compared: "to the target", or "in all" for all passes."""
    seeds: int
    """The number of seeds for which both strategies have a time that counts."""
    of: int
    """The number of seeds that both strategies were given."""
    times: float
    """The speed-up: the geometric mean over the seeds of the seconds of `against`, divided by the seconds of `name`."""
    low: float | None
    """The lower end of the speed-up's own 95 % confidence interval; None without an interval."""
    high: float | None
    """The upper end of the speed-up's own 95 % confidence interval; None without an interval."""
    at_least: float | None
    """A lower bound of the speed-up over `single`, above 1; None unless the speed-up is `enough`.

    The bounds of all strategies, in the same seconds, hold together with 95 % confidence.
    """
    pooled: bool
    """Whether the standard deviation is estimated from several strategies together."""
    verdict: str
    """faster, slower or undecided, over all pairs together."""
    error: float | None = None
    """The standard error of the mean of the logarithms."""
    enough: bool = False
    """Whether the speed-up is decided well enough to recommend the row of `name`."""


@dataclass(frozen=True, kw_only=True)
class OnHosts:
    """A strategy on the hosts at hand, or its prediction on as many hosts as nodes with a slow link."""

    name: str
    """The strategy, as reports call it."""
    nodes: int
    """The number of nodes."""
    runs: int
    """The number of runs that finished."""
    diverged: int
    """The number of runs that diverged."""
    hosts: int | None
    """The number of hosts."""
    link: str
    """The link between the nodes: loopback, this cluster's, or 100 Mbit/s."""
    seconds: float | None
    """Mean seconds of training."""
    measured: bool
    """Whether the seconds were measured; if not, they are predicted."""
