"""A run's folder as `train` leaves it, without training: the model's weights are random, its predictions are not."""

from pathlib import Path

from sparksplit.model.description import data_description
from sparksplit.model.export import export
from sparksplit.model.graphs.inputs import Inputs
from tests.hdfs_io.outputs import fenced
from tests.training.records import run_record


def make_run(folder, data, build, tmp_path, *, loss=None, run_id="r"):
    """Export `build(description)`, a Keras model for `data`, into `folder`; the model."""
    folder, scratch = Path(folder), tmp_path / f"scratch-{Path(folder).name}"
    folder.mkdir()
    scratch.mkdir()
    description = data.description
    model = build(data_description(description, data.manifest.splits["train"].rows))
    with fenced(folder) as run:
        export(model, Inputs(description), run, str(scratch))
    description.write(str(folder))
    make_complete(folder, loss=loss, run_id=run_id)
    return model


def make_complete(folder, *, loss=None, run_id="r"):
    record = run_record(run_id=run_id, config_hash="c", weights=f"w-{run_id}", config={"loss": loss})
    with fenced(folder) as run:
        record.write(run)
    (folder / "_SUCCESS").touch()
