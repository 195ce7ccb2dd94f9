"""The files of sealed.py, with predictions and measurements, and its figures and goals."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

GOALS: dict[str, tuple[str, float]] = {
    "median_error": ("median error of the times", 0.08),
    "within_15_percent": ("times within 15 %", 43 / 48),
    "fastest_named": ("fastest strategy named, or one within 5 % of it", 11 / 12),
    "memory_within_10_percent": ("memory within 10 % of VmHWM", 1.0),
}
"""What each goal is called; the largest median error, and the smallest shares of the cells and pairs."""


def sealed(cells: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of predictions. settings: the runs that they are of."""
    content = {"settings": dict(settings), "cells": list(cells)}
    return {"digest": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(), **content}


def seal(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file of predictions. Raise FileExistsError rather than replace a file."""
    whole = file.with_name(f"{file.name}.{os.getpid()}")
    whole.write_text(json.dumps(content, indent=1) + "\n")
    try:
        os.link(whole, file)
    finally:
        whole.unlink()


def taken(file: Path) -> str | None:
    """Why `predict` must not write `file`; None if it may."""
    there = [each for each in (file, measurements(file)) if each.exists()]
    return f"{there[0]}: exists; predictions are never replaced" if there else None


def broken(file: Path, settings: Mapping[str, Any]) -> str | None:
    """What is wrong with a file of predictions for `settings`, or with its measurements; None if nothing is. The file
    may have further settings: its commit."""
    if not file.is_file():
        return f"{file}: no such file; `predict` makes it"
    content = json.loads(file.read_text())
    if content["digest"] != sealed(content["cells"], content["settings"])["digest"]:
        return f"{file}: does not have its digest; it was changed after it was sealed"
    if {**content["settings"], **settings} != content["settings"]:
        return f"{file}: was sealed for other runs than this program makes"
    if any(row["digest"] != content["digest"] for row in measured_rows(file)):
        return f"{measurements(file)}: has measurements of other predictions"
    return None


def measurements(file: Path) -> Path:
    """The file with the measurements of the predictions in `file`."""
    return file.with_name(f"{file.name}.measured")


def measured_rows(file: Path) -> list[dict[str, Any]]:
    """The cells that were measured so far."""
    there = measurements(file)
    return [json.loads(line) for line in there.read_text().splitlines()] if there.exists() else []


def add_measured(file: Path, digest: str, cell: Mapping[str, Any], seconds: float, memory: int) -> None:
    """Add the measurement of a cell. An interruption leaves the file as it was, or whole."""
    model, mbit, strategy = cell_of(cell)
    row = {"digest": digest, "model": model, "mbit": mbit, "strategy": strategy}
    row |= {"measured": round(seconds, 4), "measured_memory": memory}
    lines = [json.dumps(each) for each in (*measured_rows(file), row)]
    whole = measurements(file).with_name(f"{measurements(file).name}.{os.getpid()}")
    whole.write_text("".join(f"{line}\n" for line in lines))
    whole.replace(measurements(file))


def cell_of(row: Mapping[str, Any]) -> tuple[str, int, str]:
    """The model, the link and the strategy of a row."""
    return row["model"], row["mbit"], row["strategy"]


def joined(cells: Sequence[Mapping[str, Any]], measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The sealed cells, with `measured` and `measured_memory`; both are None in a cell that was not measured. The first
    measurement of a cell counts, and nothing else of it."""
    found = {cell_of(row): row for row in reversed(measured)}
    keys = ("measured", "measured_memory")
    return [{**cell, **{key: found.get(cell_of(cell), {}).get(key) for key in keys}} for cell in cells]


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How good the predictions were. A cell that was not measured is missed, and so is the fastest strategy where one
    of its pair was not. rows: at least one."""
    errors = [_error(row, "seconds", "measured") for row in rows]
    pairs = {(row["model"], row["mbit"]) for row in rows}
    named = 0
    for pair in pairs:
        of_pair = [row for row in rows if (row["model"], row["mbit"]) == pair]
        if all(row["measured"] is not None for row in of_pair):
            guess = min(of_pair, key=lambda row: row["seconds"])
            named += guess["measured"] <= 1.05 * min(row["measured"] for row in of_pair)
    middle, largest = (round(error, 4) if math.isfinite(error) else None for error in (median(errors), max(errors)))
    return {
        "measured": sum(math.isfinite(error) for error in errors),
        "median_error": middle,
        "largest_error": largest,
        "within_15_percent": sum(error <= 0.15 for error in errors),
        "fastest_named": named,
        "pairs": len(pairs),
        "memory_within_10_percent": sum(_error(row, "memory", "measured_memory") <= 0.1 for row in rows),
    }


def _error(row: Mapping[str, Any], predicted: str, measured: str) -> float:
    """The relative error of a prediction; infinite where nothing was measured."""
    return math.inf if row[measured] is None else float(abs(row[predicted] / row[measured] - 1))


def goals(found: Mapping[str, Any], cells: int) -> tuple[list[str], bool]:
    """The lines of the table of goals, and whether all are met. cells: how many were predicted."""
    lines, are_met = [f"{'goal':48} {'found':>9} {'wanted':>13}"], True
    for name, (what, wanted) in GOALS.items():
        if name == "median_error":
            error = math.inf if found[name] is None else found[name]
            is_met, told, asked = error <= wanted, f"{error:.1%}", f"at most {wanted:.0%}"
        else:
            of = found["pairs"] if name == "fastest_named" else cells
            least = math.ceil(wanted * of - 1e-9)
            is_met, told, asked = found[name] >= least, f"{found[name]} of {of}", f"at least {least}"
        lines.append(f"{what:48} {told:>9} {asked:>13}  {'met' if is_met else 'missed'}")
        are_met &= is_met
    return lines, are_met


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of the table."""
    lines = [f"{'model':6} {'strategy':14} {'Mbit/s':>6} {'predicted':>10} {'measured':>10} {'error':>7} {'memory':>7}"]
    for row in rows:
        begin = f"{row['model']:6} {row['strategy']:14} {row['mbit']:>6} {row['seconds']:>9.2f}s "
        if row["measured"] is None:
            lines.append(f"{begin}not measured")
            continue
        error, memory = row["seconds"] / row["measured"] - 1, row["memory"] / row["measured_memory"] - 1
        lines.append(f"{begin}{row['measured']:>9.2f}s {error:>+7.1%} {memory:>+7.1%}")
    return lines
