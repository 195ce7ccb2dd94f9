"""The mistakes in a comparison's configuration that only the data set can show."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.comparison import results as analysis
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.plan import Run
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.training import metric_facts


def check(config: CompareConfig, runs: Sequence[Run], data: PreparedDataSet) -> None:
    """Raise ConfigError for mistakes that only the data set can show, before anything runs."""
    manifest = data.manifest
    for key in ("nodes", "virtual"):
        most = max(getattr(config, key), default=0)
        if most > manifest.lanes:
            raise config.error(
                key, f"{most} nodes are more than the data set's {manifest.lanes} lanes; prepare it with more"
            )
    if not manifest.splits["test"].rows and not manifest.splits["validation"].rows:
        raise config.error(
            "data",
            f"{data.path}: has neither validation nor test rows, and `compare` judges models by one of them."
            " Prepare it with `validation` or `test` above 0",
        )
    if config.tuning is not None and not manifest.splits["validation"].rows:
        raise config.error(
            "tune", f"{data.path}: has no validation rows, by which values are chosen; prepare it with validation: 0.1"
        )
    metric = analysis.deciding(config, manifest).name
    for run in runs:
        if metric not in (metric_facts.LOSS, *metric_facts.measured(run.config.metrics, manifest)):
            raise config.error("metric", f"is {metric}, which {run.name} does not measure: add it to its `metrics`")
        if metric == metric_facts.LOSS and run.config.loss != runs[0].config.loss:
            raise config.error(
                "metric", f"is loss, and {run.name} has another loss than {runs[0].name}: compare by one of the metrics"
            )
