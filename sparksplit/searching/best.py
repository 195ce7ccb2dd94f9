"""best.yaml: the configuration of the best trial, for `train`."""

from __future__ import annotations

from typing import Any

import yaml

from hdfs_io import filesystem
from sparksplit.model.own_model import is_object
from sparksplit.searching.search_config import SearchConfig
from sparksplit.searching.search_record import BEST, SearchRecord, Trial
from sparksplit.searching.space import base_values, with_keys


def best_values(config: SearchConfig, best: Trial) -> dict[str, Any]:
    """Return the keys of `train` of the best trial. Their output is a folder beside the search's folder."""
    return {**with_keys(base_values(config), best.keys), "output": f"{config.output.rstrip('/')}-best"}


def best_yaml(config: SearchConfig, record: SearchRecord, best: Trial) -> str:
    """Return the text of best.yaml."""
    values = best_values(config, best)
    lines = [
        f"# The best of {len(record.trials)} trials: {best.number}, {record.metric} {best.value:.6g}. Train it:",
        f"#   sparksplit train --config {filesystem.join(config.output, BEST)}",
    ]
    if is_object(str(values.get("model", {}).get("build"))):
        lines[1] = "#   sparksplit.train(..., model=...): model.build stands for an object of your Python program."
    return "\n".join([*lines, yaml.safe_dump(values, sort_keys=False, allow_unicode=True)])
