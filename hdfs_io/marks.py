"""The two marker files of an output folder, and which names in the folder belong to the command."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any

from hdfs_io import filesystem
from hdfs_io.fence import PREFIX

SUCCESS = "_SUCCESS"
"""Written last. A folder without it is incomplete."""
CONFIG = "_CONFIG"
"""Written first. Records the folder's command and the hash of its configuration."""

COMMANDS = {
    "preprocess": "a prepared data set",
    "train": "a run of train",
    "compare": "a comparison",
    "search": "a search",
    "predict": "predictions",
    "diagnose": "a diagnosis",
    "plan": "a plan",
}
"""The output of each command, in words."""
_NAMES = {
    "preprocess": ("manifest.json", "preprocessing.json", "train", "validation", "test", "blocks", "bad_rows"),
    "train": (
        *("run.json", "checkpoints", "metrics.jsonl", "_ATTEMPTS", "_CHOICE"),
        *("model.keras", "model.onnx", "saved_model", "preprocessing.json", "tensorboard"),
    ),
    "compare": ("results.json", "runs", "measured.json", "report.html", "_BEGUN"),
    "search": ("search.json", "best.yaml", "trials"),
    "predict": ("predictions", "metrics.json", "bad_rows", "part-*.parquet", "_metrics.json", "_bad_rows"),
    "diagnose": ("diagnosis.json", "diagnosis.html"),
    "plan": ("plan.json",),
}
"""Names that each command writes into its output folder. `*` is any text."""

_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}")
"""Name of an incomplete file; the group is its final name."""


def is_own(command: str, name: str) -> bool:
    """Whether `name` in an output folder of `command` is a part of that output. Everything else belongs to the user,
    such as another output or notes.
    """
    if unfinished := _TEMPORARY.fullmatch(name):
        name = unfinished[1]
    patterns = (CONFIG, SUCCESS, *_NAMES[command])
    return name.startswith(PREFIX) or any(fnmatchcase(name, each) for each in patterns)


def mark_of(content: bytes) -> dict[str, Any]:
    """Return the content of a marker file; empty if the file is damaged."""
    try:
        mark = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return mark if isinstance(mark, dict) else {}


def only_marks(names: Collection[str]) -> bool:
    """Whether a folder with these `names` holds only marker files: nothing from a command or its user."""
    return all(name.startswith(("_", PREFIX)) for name in names)


def made_from(path: str) -> dict[str, str]:
    """Return the recorded hashes of the configuration and the input of the output `path`. Empty if unknown."""
    file = filesystem.join(path, CONFIG)
    recorded = filesystem.read_json(file) if filesystem.exists(file) else {}
    return {name: recorded[name] for name in ("config_hash", "input_hash") if name in recorded}
