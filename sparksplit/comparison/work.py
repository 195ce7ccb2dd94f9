"""The runs of a comparison with what a command needs to do them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hdfs_io import filesystem
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.content import record_hash
from sparksplit.comparison.plan import Run
from sparksplit.comparison.tuning.tries import Try, tries
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.training.inputs import RunInputs
from sparksplit.training.recovery.restarts import Restarts

RUNS = "runs"
"""The folder of the runs' records, in the comparison's folder."""


@dataclass
class Work:
    """A run, with its inputs for the nodes, its hash and its restarts.

    hash: the hash of everything that can change the run's record, times included.
    """

    run: Run
    inputs: RunInputs
    hash: str
    restarts: Restarts

    @classmethod
    def of(cls, run: Run, data: PreparedDataSet) -> Work:
        inputs = RunInputs.of(run.config, data)
        return cls(run, inputs, record_hash(inputs.hash(), run.timing), Restarts(run.config.max_restarts))

    def path(self, folder: str) -> str:
        """Return the path of the run's record. folder: the comparison's."""
        return filesystem.join(folder, RUNS, f"{self.run.key}.json")


@dataclass(frozen=True)
class Search:
    """The tries of the hyperparameter search and their runs; empty without a search."""

    tries: Sequence[Try] = ()
    work: Sequence[Work] = ()

    @classmethod
    def of(cls, config: CompareConfig, runs: Sequence[Run], data: PreparedDataSet) -> Search:
        tried = tries(config, runs)
        return cls(tried, [Work.of(run, data) for one in tried for run in one.runs])
