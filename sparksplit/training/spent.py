"""Where the seconds of a run go: their names, their sums over nodes and attempts, and advice on what takes most.

Each second counts under one name only. Only `waiting` is a part of another name, `sync`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparksplit.training.progress_record import EpochSeconds
from sparksplit.training.run_record import RunSeconds

TRAINING = ("copy", "compute", "sync")
"""Parts of `train` in run.json. In metrics.jsonl, `train` also has `feed`, the waiting for rows."""
ROUNDS = ("feed", "warmup", *TRAINING, "validation", "metrics", "checkpoint", "records", "other")
"""Parts of a round, and so of the training from its first round on."""
PARTS = ("start", "handoff", *ROUNDS, "test", "export", "lost")
"""All parts that a node counts."""

Spent = dict[str, float]
"""Seconds by these names, and `waiting`."""

_SHARE, _WORTH = 1 / 3, 1.0
"""Smallest share of the time, and smallest number of seconds, that are worth a line."""
_SHORT = 300.0
"""Seconds. On a healthy cluster, a start takes about a minute, which may be most of a shorter run."""


def total(spent: Mapping[str, float]) -> float:
    """Return the sum of the seconds, without `waiting`, which `sync` includes."""
    return sum(seconds for name, seconds in spent.items() if name != "waiting")


def gone_on(earlier: Mapping[str, float], before: Mapping[str, float]) -> Spent:
    """Return the run's seconds when an attempt begins.

    earlier: seconds up to the checkpoint that the attempt goes on from.
    before: the driver's seconds up to the attempt. `lost` has all of them except the driver's own start.
    """
    since = {**before, "lost": max(0.0, before.get("lost", 0.0) - total(earlier))}
    return {name: earlier.get(name, 0.0) + since.get(name, 0.0) for name in {**earlier, **since}}


def trained(spent: Mapping[str, float]) -> float:
    """Return the seconds of training, with the waiting for rows."""
    return sum(spent.get(name, 0.0) for name in ("feed", *TRAINING))


def of_round(spent: Mapping[str, float]) -> EpochSeconds:
    """Return the seconds of a round for its record."""
    rounded = {name: round(spent.get(name, 0.0), 4) for name in (*ROUNDS, "waiting")}
    return EpochSeconds(train=round(trained(rounded), 4), total=round(total(rounded), 4), **rounded)


def of_run(nodes: Sequence[Mapping[str, float]], launched: float, wall: float) -> RunSeconds:
    """Return the seconds of a finished run.

    nodes: each node's seconds.
    launched: seconds of the last attempt until its nodes' processes ran.
    wall: seconds of the whole run.
    """

    def mean(name: str) -> float:
        return sum(spent.get(name, 0.0) for spent in nodes) / len(nodes)

    means = {name: mean(name) for name in (*PARTS, "waiting")}
    # Only node 0 exports. The other nodes have ended by then, or wait for node 0.
    means["export"] = max(spent.get("export", 0.0) for spent in nodes)
    left = max(0.0, wall - total(means))
    means["start"] += min(launched, left)
    means["end"] = max(0.0, left - launched)
    rounded = {name: round(seconds, 3) for name, seconds in means.items()}
    train = round(sum(rounded[name] for name in TRAINING), 3)
    return RunSeconds(train=train, total=round(total(rounded), 3), **rounded)


def advice(seconds: RunSeconds, on_cluster: bool, config: str | None = None) -> str | None:
    """Return one line on what took more than a third of the time and need not have; None if nothing did.

    on_cluster: whether the run waited for executors.
    config: the configuration's file; None if the run's keys are from Python or the command line.
    """
    spent = vars(seconds)
    diagnose = (
        f"`sparksplit diagnose --config {config}` finds what would help"
        if config
        else "`sparksplit diagnose`, with the data's folder and this run's keys in a file, finds what would help"
    )
    waited = f", {spent['waiting'] / spent['sync']:.0%} of that for slower ones" if spent["sync"] else ""
    rounds = {
        "feed": ("nodes waited {share} of the time for rows", diagnose),
        "copy": ("copying rows to the devices took {share} of the time", diagnose),
        "sync": (
            f"nodes synchronised for {{share}} of the time{waited}",
            f"{diagnose}; larger mini-batches or `strategy: local` exchange less",
        ),
        "validation": ("validation took {share} of the time", "fewer validation rows would do"),
        "checkpoint": ("checkpoints took {share} of the time", "a larger `checkpoint.seconds` makes them fewer"),
    }
    whole = {
        "handoff": (
            "nodes waited {share} of the time for Spark to hand over all rows",
            "`input_mode: tensorflow` reads them",
        ),
        "lost": (
            "{share} of the time was lost in failed attempts",
            "run.json has their causes; a smaller `checkpoint.seconds` loses less",
        ),
    }
    if on_cluster and seconds.total >= _SHORT:
        whole["start"] = (
            "starting took {share} of the time",
            "`sparksplit check` checks the cluster",
        )
    training = spent["train"] + sum(spent[name] for name in ROUNDS if name not in TRAINING)
    shares = [(spent[name] / training, name, *rounds[name]) for name in rounds if training]
    shares += [(spent[name] / seconds.total, name, *whole[name]) for name in whole if seconds.total]
    worth = [candidate for candidate in shares if candidate[0] > _SHARE and spent[candidate[1]] >= _WORTH]
    if not worth:
        return None
    share, _, what, helps = max(worth)
    return f"{what.format(share=f'{share:.0%}')}: {helps}"
