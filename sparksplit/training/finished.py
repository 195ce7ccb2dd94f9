"""A run whose driver was killed between run.json, which is written after all else, and the marker: there is nothing to
train, and its nodes need not start again."""

from __future__ import annotations

import logging

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.errors import InputError
from sparksplit.rows.ledger import Ledger
from sparksplit.training import attempts, checkpoints
from sparksplit.training.initial import KERAS
from sparksplit.training.progress_record import METRICS
from sparksplit.training.record import RUN, RunRecord

log = logging.getLogger(__name__)

_SAVED_MODEL = "saved_model"


def completed(output: Output) -> RunRecord | None:
    """run.json of an output that goes on, which is complete then; None where its nodes have something left to do: then
    the output holds no run.json, and the attempts that it tells of are kept."""
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
    # Were these nodes killed while they replace what it tells of, it would be taken for the end.
    output.fence.remove(filesystem.join(output.folder, RUN))
    return None


def is_whole(folder: str, record: RunRecord, config_hash: str) -> bool:
    """Whether the `record` in the folder of a run is that of this configuration's end, and all that it tells of is
    there. Raises InputError where something is damaged."""
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
