"""A plausible results.json: the digits, five strategies and a variant, made up by formulas; the same every time."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from sparksplit.comparison.answer.content import NO_ANSWER
from sparksplit.comparison.answer.decide import answer
from sparksplit.comparison.content import FORMAT_VERSION, Results
from sparksplit.training.run_record import RunSeconds
from tests.training.records import RUN_JSON

ROWS = {"train": 1248, "validation": 192, "test": 357}
PASSES = 12
VIRTUAL = (4, 8, 16, 32)
SINGLE, BATCH, EPOCH, DELAYED = "single", "batch", "epoch", "epoch-delayed"
LOCAL, EVERY = "local, H = 32, nesterov", "local, H = 8"
NASTY = """$x_1$<script>alert(1)</script> & "b" 'c' id="d" url(#e)"""
# label: strategy, how fast it learns, where it ends on two nodes, what it loses with each doubling, syncs per pass
STRATEGIES: dict[str, tuple[str, float, float, float, float]] = {
    SINGLE: ("single", 1.05, 0.9725, 0.0, 0),
    BATCH: ("batch", 1.05, 0.9724, 0.0, 20),
    EPOCH: ("epoch", 0.80, 0.9690, 0.006, 10),
    DELAYED: ("epoch-delayed", 0.62, 0.9655, 0.011, 0.5),
    LOCAL: ("local", 0.95, 0.9752, 0.003, 1.6),
    EVERY: ("local", 0.98, 0.9739, 0.002, 5),
}
PARAMETER_BYTES = 40_000
PLACE = {
    "cluster": "local-cluster on desk",
    "hosts": ["a processor at 2.1 GHz, 2 cores"],
    "threads": 1,
    "input_mode": "tensorflow",
    "versions": ["sparksplit 0.2.0", "tensorflow 2.21.0"],
}


def results(seeds: int = 5) -> dict[str, Any]:
    """What `render` takes, for so many seeds; with one there are no intervals."""
    numbers = list(range(1, seeds + 1))
    plan = [(name, 1 if name == SINGLE else 2) for name in STRATEGIES]
    runs = [_run(name, nodes, seed, False) for name, nodes in plan for seed in numbers]
    far = [(name, nodes) for name in STRATEGIES if name not in (SINGLE, BATCH) for nodes in VIRTUAL]
    virtual = [_run(name, nodes, seed, True) for name, nodes in far for seed in numbers]
    table = [_row(name, nodes, [run for run in runs if run["name"] == name]) for name, nodes in plan]
    for name, nodes in far:
        table.append(_row(name, nodes, [run for run in virtual if (run["name"], run["nodes"]) == (name, nodes)]))
    content = {
        "format_version": FORMAT_VERSION,
        "command": "compare",
        "sparksplit": "0.2.0",
        "created": "2026-11-21T22:00:00+00:00",
        "config": {
            "data": "prepared/digits",
            "output": "comparisons/digits",
            "strategies": ["single", "batch", "epoch", "epoch-delayed", {"strategy": "local", "sync": {"every": 32}}],
            "nodes": [1, 2],
            "seeds": seeds,
            "epochs": 11,
            "batch_size": 64,
        },
        "config_hash": "5f0c9a7e11d2b384",
        "within": "",
        "data": {"path": "prepared/digits", "digest": "9a41c0de77e0b1f2", "rows": dict(ROWS)},
        "model": "mlp",
        "metric": {
            "name": "accuracy",
            "higher_is_better": True,
            "split": "test",
            "resolution": 1 / ROWS["test"],
            "share": 0.0035,
            "range": {"untrained": 0.11, "trained": 0.97, "by": "`single` on seeds of its own"},
            "margin": 0.003,
        },
        "epochs": {
            "asked": 11,
            "run": 12,
            "reason": "a multiple of 1 and 2 nodes, so that every strategy reads the same passes",
        },
        "seeds": numbers,
        "looks": [seeds],
        "nodes": [1, 2],
        "target": {"metric": "accuracy", "value": 0.95, "by": "configuration"},
        "grid": [2, 4, 6, 8, 10, 12],
        "place": PLACE,
        "machine": {
            "cores": 2,
            "memory_bytes": 24_000_000_000,
            "processor": "a processor at 2.1 GHz",
            "system": "Linux 6.1",
            "python": "3.11.9",
            "gpus": [],
        },
        "versions": {"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6", "pyspark": "3.5.9"},
        "runs": runs,
        "virtual": virtual,
        "diverged": [],
        "references": [],
        "table": table,
        "pairs": _pairs(seeds),
        "times": _times(seeds),
        "cost_model": _cost_model(),
        "scale": _scale(),
        "tuning": _tuning(),
        "earlier": [],
    }
    return {**content, "answer": answer_of(content)}


def answer_of(content: dict[str, Any]) -> dict[str, Any]:
    """The answer that the rest of a results.json has."""
    without = {**content, "answer": NO_ANSWER.to_json()}
    return answer(Results.from_json(without, "a test")).to_json()


def wobble(*parts: Any) -> float:
    """A number in -1..1 that only depends on `parts`."""
    text = "/".join(str(part) for part in parts)
    return math.sin(sum((index + 1) * ord(letter) for index, letter in enumerate(text)) * 12.9898)


def _accuracy(name: str, nodes: int, seed: int, passes: float) -> float:
    _, speed, end, loss, _ = STRATEGIES[name]
    end -= loss * max(0.0, math.log2(nodes) - 1)
    speed /= 1 + loss * 20 * max(0.0, math.log2(nodes) - 1)
    learned = end - 0.85 * math.exp(-speed * passes)
    return learned + 0.0025 * wobble(name, nodes, seed, round(passes)) * min(1.0, 3 / passes)


def _seconds(name: str, nodes: int) -> dict[str, float]:
    """Where the time of one run goes."""
    compute = 3.4 / nodes
    sync = 0.0 if nodes == 1 else 0.004 * STRATEGIES[name][4] * PASSES
    parts = {
        "reading": 0.31,
        "hand-off": 0.12,
        "compute": compute,
        "waiting": 0.09 * (nodes > 1),
        "synchronising": sync,
    }
    return {**parts, "other": 0.2}


def _run(name: str, nodes: int, seed: int, virtual: bool) -> dict[str, Any]:
    strategy, _, _, _, per_pass = STRATEGIES[name]
    train = sum(_seconds(name, nodes).values()) * (1 + 0.03 * wobble(name, seed))
    updates = PASSES * 10 * (2 if strategy == "batch" else 1)
    step = nodes if strategy.startswith("epoch") and nodes <= PASSES else 1
    points = [*range(step, PASSES + 1, step)]
    history = [
        {
            "passes": passes,
            "updates": round(updates * passes / PASSES),
            "steps": round(updates * passes / PASSES),
            "seconds": train * passes / PASSES,
            "train": {"loss": 2 * math.exp(-passes / 3), "accuracy": _accuracy(name, nodes, seed, passes) + 0.01},
            "validation": {"loss": 2.1 * math.exp(-passes / 3), "accuracy": _accuracy(name, nodes, seed, passes)},
        }
        for passes in points
    ]
    test = _accuracy(name, nodes, seed, PASSES) + 0.002 * wobble("test", name, seed)
    return {
        **RUN_JSON,
        "name": name,
        "strategy": strategy,
        "nodes": nodes,
        "virtual": virtual,
        "seed": seed,
        "key": f"{strategy}-n{nodes}-s{seed}",
        "passes": PASSES,
        "updates": updates,
        "steps": updates,
        "syncs": round(per_pass * PASSES),
        "sync_bytes_per_node": 0
        if nodes == 1
        else round(per_pass * PASSES * PARAMETER_BYTES * 2 * (nodes - 1) / nodes),
        "rows": PASSES * ROWS["train"],
        "rows_per_second": PASSES * ROWS["train"] / train,
        "seconds": {
            **dict.fromkeys((field.name for field in fields(RunSeconds)), 0.0),
            "start": 5.2,
            "feed": 0.4,
            "warmup": 0.3,
            "train": train,
            "sync": _seconds(name, nodes)["synchronising"],
            "waiting": 0.0,
            "validation": 0.2,
            "checkpoint": 0.1,
            "total": train + 6,
        },
        "ledger": {"rows": PASSES * ROWS["train"], "checksum": "00aa11bb22cc33dd", "exact": True},
        "weights": f"{nodes:04x}{seed:04x}aa55",
        "metrics": {
            name: {key: [point[name][key] for point in history] for key in ("loss", "accuracy")}  # type: ignore[index]
            for name in ("train", "validation")
        }
        | {"test": {"loss": 0.11, "accuracy": test}},
        "history": history,
        "place": PLACE,
    }


def _row(name: str, nodes: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    virtual = runs[0]["virtual"]
    values = [run["metrics"]["test"]["accuracy"] for run in runs]
    mean = sum(values) / len(values)
    half = (
        2.776 * math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
        if runs[1:]
        else None
    )
    seconds = sum(run["seconds"]["train"] for run in runs) / len(runs)
    single = sum(_seconds(SINGLE, 1).values())
    first = [point for point in runs[0]["history"] if point["validation"]["accuracy"] >= 0.95]
    return {
        "name": name,
        "strategy": runs[0]["strategy"],
        "nodes": nodes,
        "virtual": virtual,
        "runs": len(runs),
        "diverged": 0,
        "timed": 0 if virtual else len(runs),
        "hosts": 1,
        "passes": PASSES,
        "updates": runs[0]["updates"],
        "syncs": runs[0]["syncs"],
        "bytes_per_node": float(runs[0]["sync_bytes_per_node"]),
        "seconds": None if virtual else seconds,
        "rows_per_second": None if virtual else PASSES * ROWS["train"] / seconds,
        "efficiency": None if virtual else single / seconds / nodes,
        "controls": [],
        "settings": {"strategy": runs[0]["strategy"], "nodes": nodes},
        **({} if virtual or not runs[1:] else {"seconds_low": seconds * 0.97, "seconds_high": seconds * 1.03}),
        "metric": {"mean": mean, "low": mean - half if half else None, "high": mean + half if half else None},
        "to_target": {
            "seconds": None if virtual or not first else first[0]["seconds"],
            "passes": float(first[0]["passes"]) if first else None,
            "reached": len(runs) if first else 0,
            "of": len(runs),
            **(
                {}
                if virtual or not first or not runs[1:]
                else {"low": first[0]["seconds"] * 0.95, "high": first[0]["seconds"] * 1.08}
            ),
        },
        "time": None if virtual else _seconds(name, nodes),
    }


def _pairs(seeds: int) -> list[dict[str, Any]]:
    listed = [
        (LOCAL, 2, BATCH, 2, 0.0061, 0.0014, "better"),
        (EVERY, 2, BATCH, 2, 0.0013, 0.0012, "no difference"),
        (EPOCH, 2, BATCH, 2, -0.0032, 0.0041, "undecided"),
        (DELAYED, 2, BATCH, 2, -0.0071, 0.0022, "worse"),
        (BATCH, 2, SINGLE, 1, 0.0, 0.0004, "no difference"),
    ]
    return [
        {
            "name": name,
            "nodes": nodes,
            "virtual": False,
            "against": against,
            "against_nodes": against_nodes,
            "quantity": "accuracy",
            "seeds": seeds,
            "of": seeds,
            "mean": mean,
            "low": mean - half if seeds > 1 else None,
            **({"error": half / 2.5} if seeds > 1 else {}),
            "enough": False,
            "high": mean + half if seeds > 1 else None,
            "pooled": seeds > 2,
            "verdict": verdict if seeds > 1 else "undecided",
        }
        for name, nodes, against, against_nodes, mean, half, verdict in listed
    ]


def _times(seeds: int) -> list[dict[str, Any]]:
    listed = [(LOCAL, 1.9, 0.1, "faster"), (BATCH, 1.05, 0.1, "undecided"), (DELAYED, 0.8, 0.1, "slower")]
    return [
        {
            "name": name,
            "nodes": 2,
            "against": SINGLE,
            "against_nodes": 1,
            "what": what,
            "seeds": seeds,
            "of": seeds,
            "times": times,
            "low": times - half if seeds > 1 else None,
            **({"error": half / times / 2.5} if seeds > 1 else {}),
            "enough": False,
            "high": times + half if seeds > 1 else None,
            "at_least": 1.7 if seeds > 1 and verdict == "faster" else None,
            "pooled": seeds > 2,
            "verdict": verdict if seeds > 1 else "undecided",
        }
        for what in ("to the target", "in all")
        for name, times, half, verdict in listed
    ]


def _tuning() -> dict[str, Any]:
    rates = {SINGLE: (1, [0.95, 0.97, 0.91]), EPOCH: (2, [0.93, 0.95, None]), LOCAL: (2, [0.97, 0.96, 0.95])}
    return {
        "metric": "accuracy",
        "tries": 3,
        "seeds": [2_000_001],
        "strategies": [
            {
                "name": name,
                "nodes": nodes,
                "virtual": False,
                "ranges": {"optimizer.learning_rate": [0.01, 1.0]},
                "tries": [
                    {"values": {"optimizer.learning_rate": rate}, "metric": metric, "loss": metric and 1 - metric}
                    for rate, metric in zip((0.1, 0.0316, 0.316), metrics, strict=True)
                ],
                "chosen": 0 if name == LOCAL else 1,
                "edges": [] if name == LOCAL else ["optimizer.learning_rate"],
                "also": ["`batch` on 2"] if name == SINGLE else [],
            }
            for name, (nodes, metrics) in rates.items()
        ],
        "runs": 9,
        "diverged": 1,
        "passes": 96,
        "node_seconds": 88.5,
    }


def _cost_model() -> dict[str, Any]:
    sizes = [1024 * 4**power for power in range(8)]
    checks = []
    for name in STRATEGIES:
        nodes = 1 if name == SINGLE else 2
        measured = sum(_seconds(name, nodes).values())
        error = 0.09 * wobble("check", name)
        checks.append(
            {"name": name, "nodes": nodes, "measured": measured, "predicted": measured * (1 + error), "error": error}
            | {"left_out": False, "reading": 0.02, "reading_predicted": 0.03}
        )
    predictions = []
    for name, (_, speed, _, loss, per_pass) in STRATEGIES.items():
        if name == SINGLE:
            continue
        for nodes in (2, *VIRTUAL):
            for speed_of_link in (1, 10, 100):
                reached = not (name == DELAYED and nodes > 8)
                passes = 3 / speed * (1 + 20 * loss * max(0.0, math.log2(nodes) - 1))
                sync = per_pass * (2e-4 * nodes + 8 * 2 * PARAMETER_BYTES / (speed_of_link * 1e9))
                predictions.append(
                    {
                        "name": name,
                        "nodes": nodes,
                        "gbit_per_s": speed_of_link,
                        "seconds": passes * (0.3 / nodes + sync) if reached else None,
                        "passes": passes if reached else None,
                        "reached": 5 if reached else 0,
                        "of": 5,
                        "measured": nodes == 2 and speed_of_link == 10,
                    }
                )
    return {
        "seconds_to_begin": 0.03,
        "seconds_per_row_read": 3e-7,
        "seconds_per_row": 2.2e-4,
        "seconds_per_step": 3.1e-4,
        "seconds_per_exchange_in_graph": 2e-4,
        "seconds_per_exchange_between": 4e-3,
        "sweep": [
            {"nodes": nodes, "bytes": size, "seconds": 9e-5 * nodes + size / 1.1e9}
            for nodes in (2, 3)
            for size in sizes
        ],
        "latency_seconds": 9e-5,
        "seconds_per_byte": 9.1e-10,
        "seconds_per_meeting": 2e-4,
        "uneven": 0.05,
        "contention": 0.3,
        "text": "A step costs 0.31 ms and 0.22 ms a row; a synchronisation 0.09 ms and 0.91 ns a byte.",
        "checks": checks,
        "handoffs": [],
        "predictions": predictions,
    }


def _scale() -> list[dict[str, Any]]:
    return [
        {
            "name": LOCAL,
            "nodes": 2,
            "runs": 5,
            "diverged": 0,
            "hosts": 1,
            "link": "loopback",
            "seconds": 2.1,
            "measured": True,
        },
        {
            "name": LOCAL,
            "nodes": 2,
            "runs": 5,
            "diverged": 0,
            "hosts": 2,
            "link": "100 Mbit/s",
            "seconds": 2.3,
            "measured": True,
        },
        {
            "name": BATCH,
            "nodes": 2,
            "runs": 5,
            "diverged": 0,
            "hosts": 1,
            "link": "loopback",
            "seconds": 3.3,
            "measured": True,
        },
        {
            "name": BATCH,
            "nodes": 2,
            "runs": 5,
            "diverged": 0,
            "hosts": 2,
            "link": "100 Mbit/s",
            "seconds": 5.9,
            "measured": False,
        },
    ]
