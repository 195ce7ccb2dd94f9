"""A run whose driver was killed after it wrote run.json, but before it wrote the marker.

run.json is written after everything else. Nothing is left to train, and the nodes need not start again.
"""

from __future__ import annotations

import logging

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.errors import InputError
from sparksplit.rows.ledger import Ledger
from sparksplit.training import checkpoints
from sparksplit.training.initial import KERAS
from sparksplit.training.progress_record import METRICS
from sparksplit.training.recovery import attempts
from sparksplit.training.run_record import RUN, RunRecord

log = logging.getLogger(__name__)

_SAVED_MODEL = "saved_model"


def completed(output: Output) -> RunRecord | None:
    """Return run.json of an output that goes on, and mark the output as complete, if its nodes have nothing left to do.

    Otherwise return None, remove run.json and keep its attempts.
    """
    try:
        record = RunRecord.read(output.folder)
        whole = is_whole(output.folder, record, output.config_hash)
    except InputError as error:
        log.debug("%s: is trained on: %s", output.folder, error)
        whole = False
    if whole:
        attempts.forget(output.fence)
        output.complete()
        return record
    attempts.take_back(output.fence)
    # If the nodes are killed while they replace the files that run.json describes, run.json would look like the run's
    # end.
    output.fence.remove(filesystem.join(output.folder, RUN))
    return None


def is_whole(folder: str, record: RunRecord, config_hash: str) -> bool:
    """Return whether `record` in a run's folder is the end of this configuration's run, and everything that it
    describes is there.

    Raise InputError if something is damaged.
    """
    last = checkpoints.latest(folder)
    if record.config_hash != config_hash or not record.ledger.exact or last is None:
        return False
    if not all(filesystem.exists(filesystem.join(folder, name)) for name in (KERAS, _SAVED_MODEL, METRICS)):
        return False
    progress = checkpoints.progress_of(last)
    seen = Ledger.from_json(progress.ledger).total()
    if (progress.update, seen.rows, str(seen.checksum)) != (record.updates, record.ledger.rows, record.ledger.checksum):
        return False
    checkpoints.check(last)
    return True
