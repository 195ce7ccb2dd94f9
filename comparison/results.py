"""What the records of all runs say together: the content of results.json."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from comparison import answer, costs, scale
from comparison.config import CompareConfig
from comparison.intervals import interval
from hdfs_io.prepared import PreparedDataSet
from sparksplit import __version__
from training import report
from training.config import TrainConfig

Record = Mapping[str, Any]
Row = dict[str, Any]
Group = tuple[str, int, bool]
"""(way, nodes, virtual)"""

_TARGET = 0.95
"""The part of `single`'s way to its best value on the validation rows that the default target asks for."""


def results(
    config: CompareConfig,
    run: TrainConfig,
    data: PreparedDataSet,
    records: Sequence[Record],
    measured: Mapping[str, Any],
    made: Mapping[str, str],
) -> dict[str, Any]:
    """The content of results.json.

    run: any run's configuration. records: of all runs, those that diverged among them. measured: probe and sweeps.
    made: created (when) and config_hash (of the output).
    """
    trained = [record for record in records if "diverged" not in record]
    metric = _metric(config, trained)
    records = [record if "diverged" in record else _judged(record, metric) for record in records]
    trained = [record for record in records if "diverged" not in record]
    target = _target(config, trained, metric)
    groups = _groups(trained)
    table = [_row(group, members, groups, metric, target) for group, members in groups.items()]
    pairs = _pairs(groups, metric)
    real = [record for record in trained if not record["virtual"]]
    model = costs.cost_model(table, real, [record for record in trained if record["virtual"]], measured, metric)
    manifest = data.manifest
    content: dict[str, Any] = {
        "format_version": 1,
        "command": "compare",
        "sparksplit": __version__,
        **made,
        "config": config.model_dump(mode="json"),
        "data": {
            "path": data.path,
            "digest": data.digest,
            "rows": {name: split.rows for name, split in manifest.splits.items()},
        },
        "model": config.model.build,
        "metric": metric,
        "epochs": {
            "asked": config.epochs,
            "run": run.epochs,
            "reason": None if run.epochs == config.epochs else "every number of nodes must divide them",
        },
        "seeds": [config.seed + place for place in range(config.seeds)],
        "nodes": config.nodes,
        "target": target,
        "machine": machine() | {"gpus": measured.get("gpus", [])},
        "versions": report.versions(),
        "runs": real,
        "virtual": [record for record in trained if record["virtual"]],
        "diverged": [record for record in records if "diverged" in record],
        "table": table,
        "pairs": pairs,
        "cost_model": model,
        "scale": scale.scale(table, model),
    }
    return content | {"answer": answer.answer(content)}


def machine() -> dict[str, Any]:
    """What the driver's host is; `gpus` are those of a node."""
    return {
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _metric(config: CompareConfig, records: Sequence[Record]) -> dict[str, Any]:
    known = records[0]["metrics"]["test"] or records[0]["metrics"].get("validation", {}) if records else {}
    name = config.metric or ("accuracy" if "accuracy" in known else "loss")
    lower = any(word in name for word in ("loss", "error", "entropy", "divergence"))
    return {"name": name, "higher_is_better": not lower, "margin": config.margin}


def value_of(record: Record, metric: Mapping[str, Any]) -> float:
    """The metric on the test rows; on the validation rows, at the end, where there are no test rows."""
    value = _final(record, metric)
    if value is None:
        raise ValueError(f"{record['key']} has no finite {metric['name']}")
    return float(value)


def _final(record: Record, metric: Mapping[str, Any]) -> float | None:
    name, found = metric["name"], record["metrics"]
    value: float | None = found["test"][name] if found.get("test") else found["validation"][name][-1]
    return value


def _judged(record: Record, metric: Mapping[str, Any]) -> Record:
    """The record, as one of those that diverged where what is compared is no finite number at its end."""
    if _final(record, metric) is not None:
        return record
    return {**record, "diverged": f"its {metric['name']} is not finite at the end"}


def _curve(record: Record, name: str) -> list[tuple[float, float, float]]:
    """(passes, seconds, value) on the validation rows."""
    return [
        (point["passes"], point["seconds"], point["validation"][name])
        for point in record["history"]
        if "validation" in point and point["validation"][name] is not None
    ]


def _target(config: CompareConfig, records: Sequence[Record], metric: Mapping[str, Any]) -> dict[str, Any] | None:
    name = metric["name"]
    singles = [record for record in records if record["split"] == "single"] or list(records)
    curves = [[value for *_, value in _curve(record, name)] for record in singles]
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    if config.target is not None:
        return {"metric": name, "value": config.target}
    best = fmean(max(curve) if metric["higher_is_better"] else min(curve) for curve in curves)
    begin = fmean(curve[0] for curve in curves)
    return {"metric": name, "value": round(begin + _TARGET * (best - begin), 6)}


def reached(record: Record, target: Mapping[str, Any], higher: bool) -> tuple[float, float] | None:
    """(passes, seconds) after which the run first reached the target on the validation rows; None where it did not."""
    for passes, seconds, value in _curve(record, target["metric"]):
        if value >= target["value"] if higher else value <= target["value"]:
            return passes, seconds
    return None


def _groups(records: Sequence[Record]) -> dict[Group, list[Record]]:
    found: dict[Group, list[Record]] = {}
    for record in records:
        found.setdefault((record["way"], record["nodes"], record["virtual"]), []).append(record)
    return dict(sorted(found.items(), key=lambda item: (item[0][2], item[0][1])))


def training_seconds(record: Record) -> float:
    """Seconds of training, exchanges and waiting for rows among them; without start, compiling and validation."""
    history = record["history"]
    return float(history[-1]["seconds"]) if history else 0.0


def _row(
    group: Group,
    members: Sequence[Record],
    groups: Mapping[Group, Sequence[Record]],
    metric: Mapping[str, Any],
    target: Mapping[str, Any] | None,
) -> Row:
    way, nodes, virtual = group
    first, seconds = members[0], fmean(map(training_seconds, members))
    alone = groups.get(("single", 1, False), [])
    efficiency = fmean(map(training_seconds, alone)) / (nodes * seconds) if alone and seconds and not virtual else None
    mean, low, high = interval([value_of(member, metric) for member in members])
    row: Row = {
        "way": way,
        "split": first["split"],
        "nodes": nodes,
        "virtual": virtual,
        "runs": len(members),
        "hosts": len(set(first["hosts"])),
        **{name: first[name] for name in ("passes", "updates", "syncs")},
        "bytes_per_node": fmean(member["sync_bytes_per_node"] for member in members),
        "seconds": None if virtual else seconds,
        "rows_per_second": None if virtual else first["passes"] * first["rows"] / max(seconds, 1e-9),
        "efficiency": efficiency,
        "metric": {"mean": mean, "low": low, "high": high},
        "to_target": None,
        "time": None if virtual else _times(members),
    }
    if target is not None:
        found = [reached(member, target, metric["higher_is_better"]) for member in members]
        hits = [hit for hit in found if hit is not None]
        row["to_target"] = {
            "seconds": fmean(hit[1] for hit in hits) if hits and not virtual else None,
            "passes": fmean(hit[0] for hit in hits) if hits else None,
            "reached": len(hits),
        }
    return row


def _times(members: Sequence[Record]) -> dict[str, float]:
    """Where the seconds went, as means over the runs."""

    def mean(name: str) -> float:
        return fmean(member["seconds"].get(name, 0.0) for member in members)

    sync, waiting = mean("sync"), mean("waiting")
    return {
        "reading": mean("feed"),
        "hand-off": 0.0,
        "compute": max(0.0, mean("train") - sync),
        "waiting": waiting,
        "synchronising": max(0.0, sync - waiting),
        "other": mean("start") + mean("warmup") + mean("validation"),
    }


def _pairs(groups: Mapping[Group, Sequence[Record]], metric: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each way against `single`, and against `batch` on as many nodes; paired by seed."""
    found = []
    single: Group = ("single", 1, False)
    for group in groups:
        _, nodes, virtual = group
        for other in dict.fromkeys((single, ("batch", nodes, virtual))):
            if other in groups and group != other:
                found.append(_pair(group, other, groups, metric))
    return [pair for pair in found if pair["seeds"]]


def _pair(
    group: Group, other: Group, groups: Mapping[Group, Sequence[Record]], metric: Mapping[str, Any]
) -> dict[str, Any]:
    values = [{member["seed"]: value_of(member, metric) for member in groups[one]} for one in (group, other)]
    seeds = sorted(values[0].keys() & values[1].keys())
    sign = 1 if metric["higher_is_better"] else -1
    mean, low, high = interval([values[0][seed] - values[1][seed] for seed in seeds])
    better, worse = (low, high) if sign > 0 else (None if high is None else -high, None if low is None else -low)
    return {
        "way": group[0] + (" (virtual)" if group[2] else ""),
        "nodes": group[1],
        "against": other[0],
        "against_nodes": other[1],
        "quantity": metric["name"],
        "seeds": len(seeds),
        "mean": mean,
        "low": low,
        "high": high,
        "verdict": verdict(better, worse, float(metric["margin"])),
    }


def verdict(low: float | None, high: float | None, margin: float) -> str:
    """What an interval of differences says, where above 0 is better: `no difference` only within the margin."""
    if low is None or high is None:
        return "undecided"
    if -margin <= low and high <= margin:
        return "no difference"
    if low > 0:
        return "better"
    return "worse" if high < 0 else "undecided"
