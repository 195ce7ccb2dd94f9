"""What MLflow stores of a run, in MLflow's types: parameters and tags are texts, metrics are finite numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sparksplit.training.progress_record import EpochRecord, Values
from sparksplit.training.run_record import RunRecord

ID = "sparksplit.id"
"""The tag that identifies a run of sparksplit, over restarts and resumes."""
COMPLETE = "sparksplit.complete"
"""The tag that is set once everything has been sent."""
LONGEST = 6000
"""Most characters of a parameter's value, and of a tag's value. MLflow refuses longer values."""
_LONGEST_NAME = 250
_REFUSED = re.compile(r"[^/\w.\- :]")
"""Characters that MLflow refuses in names."""


def identity(config_hash: str, begun: str) -> str:
    """Return the value of the tag ID. begun: when the first attempt began, or when the comparison was made."""
    return f"{config_hash}@{begun}"


def name(text: str) -> str:
    """Return `text` as a name that MLflow accepts."""
    return _REFUSED.sub("_", text)[:_LONGEST_NAME]


def params(config: Mapping[str, Any]) -> dict[str, str]:
    """Return every configuration key by its dotted name, such as `optimizer.learning_rate`. A null key is `null`."""
    return {name(key): text(value) for key, value in _dotted(config)}


def text(value: Any) -> str:
    """Return a value as text: a text unchanged, everything else as JSON. Cut after LONGEST characters."""
    return (value if isinstance(value, str) else json.dumps(value))[:LONGEST]


def of_epoch(record: EpochRecord) -> dict[str, float]:
    """Return the metrics of a round, such as `train_loss` and `validation_accuracy`. Values that are not finite are
    left out."""
    return of_point(record.train, record.validation or {}) | _finite(rows_per_second=record.rows_per_second)


def of_point(train: Values, validation: Values) -> dict[str, float]:
    """Return the metrics of both splits at the end of a round, as `of_epoch`."""
    return _finite(**_named("train", train), **_named("validation", validation))


def at_end(record: RunRecord) -> dict[str, float]:
    """Return the metrics of a finished run, such as `test_accuracy` and `seconds`."""
    return _finite(**_named("test", record.metrics.test), seconds=record.seconds.total)


def tags(record: RunRecord) -> dict[str, str]:
    """Return the facts of a finished run that are neither a parameter nor a metric."""
    found = {
        "strategy": record.strategy,
        "nodes": str(record.nodes),
        "virtual": text(record.virtual),
        "ledger.exact": text(record.ledger.exact),
        "ledger.rows": str(record.ledger.rows),
        "run_id": record.run_id,
        "config_hash": record.config_hash,
        "data": record.data.path,
        "data.digest": record.data.digest,
        "weights": record.weights,
        "restarts": str(record.restarts),
        "application_id": record.application_id,
    }
    return {f"sparksplit.{key}": value[:LONGEST] for key, value in found.items()}


def _named(split: str, values: Values) -> Values:
    return {name(f"{split}_{key}"): value for key, value in values.items()}


def _finite(**values: float | None) -> dict[str, float]:
    return {key: value for key, value in values.items() if value is not None}


def _dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
