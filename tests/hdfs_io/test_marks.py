"""Whose a name in an output's folder is: its command's, or its user's."""

from __future__ import annotations

import pytest

from hdfs_io.marks import COMMANDS, CONFIG, SUCCESS, is_own
from sparksplit.comparison.compare import REPORT, RUNS
from sparksplit.comparison.comparison_record import Measured
from sparksplit.comparison.content import RESULTS
from sparksplit.dataset import block_table, description, manifest
from sparksplit.dataset.manifest import SPLITS
from sparksplit.dataset.part_file import final_name
from sparksplit.diagnosis.diagnosis_record import DIAGNOSIS
from sparksplit.diagnosis.page import PAGE
from sparksplit.inference.writer import PARTITION, WHOLE
from sparksplit.planning.plan_record import PLAN
from sparksplit.prepare import bad_rows
from sparksplit.searching.search_record import BEST, SEARCH, TRIALS
from sparksplit.training import checkpoints, choice, initial
from sparksplit.training.progress_record import METRICS
from sparksplit.training.recovery import attempts, finished
from sparksplit.training.run_record import RUN

WRITTEN = {
    "preprocess": [manifest.FILE, description.FILE, *SPLITS, block_table.FOLDER, bad_rows.FOLDER],
    "train": [
        *(RUN, METRICS, checkpoints.FOLDER, initial.KERAS, finished._SAVED_MODEL, description.FILE),
        *("tensorboard", attempts._FILE, choice._FILE),
    ],
    "compare": [RESULTS, REPORT, RUNS, Measured.FILE],
    "search": [SEARCH, BEST, TRIALS],
    "predict": [
        *(WHOLE.predictions, WHOLE.metrics, WHOLE.bad_rows, PARTITION.metrics, PARTITION.bad_rows),
        *(final_name(0), final_name(99_999)),
    ],
    "diagnose": [DIAGNOSIS, PAGE],
    "plan": [PLAN],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_writes_is_its_own_and_nothing_else_is(command: str) -> None:
    for name in (CONFIG, SUCCESS, *WRITTEN[command]):
        assert is_own(command, name) and is_own(command, f".{name}.0123abcd"), name
    assert is_own(command, ".writing-0123abcd")
    for name in ("mine", "notes.md", ".git", ".mine.owner", ".mine.staging-0123abcd", "_temporary", "partition"):
        assert not is_own(command, name)
