"""What the folder of an output says of itself: its two marks, and which of the names in it are its command's."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any

from hdfs_io import filesystem
from hdfs_io.fence import PREFIX

SUCCESS = "_SUCCESS"
"""Written last: a folder without it is not complete."""
CONFIG = "_CONFIG"
"""Written first: which command's output the folder is, and the hash of its configuration."""

COMMANDS = {
    "preprocess": "a prepared data set",
    "train": "a run of train",
    "compare": "a comparison",
    "predict": "predictions",
    "diagnose": "a diagnosis",
}
"""What each command leaves behind."""
_NAMES = {
    "preprocess": ("manifest.json", "preprocessing.json", "train", "validation", "test", "blocks", "bad_rows"),
    "train": (
        *("run.json", "checkpoints", "metrics.jsonl", "_ATTEMPTS"),
        *("model.keras", "saved_model", "preprocessing.json", "tensorboard"),
    ),
    "compare": ("results.json", "runs", "measured.json", "report.html"),
    "predict": ("predictions", "metrics.json", "bad_rows", "part-*.parquet", "_metrics.json", "_bad_rows"),
    "diagnose": ("diagnosis.json", "diagnosis.html"),
}
"""What each command writes into the folder of its output; `*` is any text."""

_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}")
"""A file that is not whole yet, and the name that it is to have."""


def is_own(command: str, name: str) -> bool:
    """Whether `name`, in the folder of an output of `command`, is a part of that output. Whatever else lies there is
    its user's: another output, say, or notes."""
    if unfinished := _TEMPORARY.fullmatch(name):
        name = unfinished[1]
    own = (CONFIG, SUCCESS, *_NAMES[command])
    return name.startswith(PREFIX) or any(fnmatchcase(name, each) for each in own)


def mark_of(content: bytes) -> dict[str, Any]:
    """What a mark says; nothing where it is damaged."""
    try:
        mark = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return mark if isinstance(mark, dict) else {}


def only_marks(names: Collection[str]) -> bool:
    """Whether a folder with these `names` holds marks alone, and nothing that a command or its user made."""
    return all(name.startswith(("_", PREFIX)) for name in names)


def made_from(path: str) -> dict[str, str]:
    """What is recorded of how, and from what, the output `path` was made; empty where that is not known."""
    file = filesystem.join(path, CONFIG)
    recorded = filesystem.read_json(file) if filesystem.exists(file) else {}
    return {name: recorded[name] for name in ("config_hash", "input_hash") if name in recorded}
