"""A driver that was killed when all but the marker was there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import InputError
from sparksplit.base.options import Options
from sparksplit.training import train as train_module
from sparksplit.training.recovery.finished import is_whole
from sparksplit.training.run import Run
from sparksplit.training.run_record import RunRecord
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig
from tests.forked import Zygote, nodes_of
from tests.training.runs import run

KEYS = {"nodes": 2, "epochs": 2, "strategy": "batch"}


def killed_at_the_end(data: str, output: str, folder: str) -> None:
    """Train; the driver is killed where it is to write the marker."""
    zygote = Zygote(Path(folder))
    train_module.Output.complete = lambda self: (zygote.end(), os.kill(os.getpid(), signal.SIGKILL))
    with nodes_of(zygote):
        train(parse(TrainConfig, {"data": data, "output": output, **KEYS}), Options())


@pytest.fixture(scope="module")
def left(digits, tmp_path_factory):
    """What such a driver has left."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "runs").mkdir()
    (folder / "nodes").mkdir()
    places = (str(digits), f"{folder}/runs/run", f"{folder}/nodes")
    call = f"from {__name__} import killed_at_the_end; killed_at_the_end(*{places})"
    assert subprocess.run([sys.executable, "-c", call], check=False).returncode == -signal.SIGKILL
    return folder / "runs"


@pytest.fixture
def copied(left, tmp_path):
    shutil.copytree(left, tmp_path / "runs")
    return tmp_path / "runs" / "run"


@pytest.fixture
def no_spark(monkeypatch):
    def none(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(train_module, "spark_session", none)


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_resumed_command_completes_it_without_nodes(no_spark, digits, copied, capsys):
    before = files(copied)
    assert "run.json" in before and "_SUCCESS" not in before
    record = run(digits, copied, Options(resume=True), **KEYS)
    assert record == json.loads(before["run.json"]) and record["ledger"]["exact"]
    assert "was killed before it wrote the marker" in capsys.readouterr().err
    after = files(copied.parent)
    marks = {"run/_CONFIG", "run/_SUCCESS"}
    ours = {f"run/{name}": content for name, content in before.items() if not name.startswith((".", "_"))}
    assert after.keys() == ours.keys() | marks
    assert {name: after[name] for name in ours} == ours
    assert run(digits, copied, **KEYS) == record  # nothing to do


def without_a_file(folder, name):
    path = folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def changed(folder, **values):
    file = folder / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def a_flipped_bit(folder):
    file = next((folder / "checkpoints").glob("*/state.npz"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


HARM = {
    "nothing": lambda folder: None,
    "no record": lambda folder: without_a_file(folder, "run.json"),
    "half a record": lambda folder: (folder / "run.json").write_text("{"),
    "another configuration": lambda folder: changed(folder, config_hash="other"),
    "rows that were lost": lambda folder: changed(folder, ledger={"rows": 2599, "checksum": "1", "exact": False}),
    "other rows": lambda folder: changed(folder, ledger={"rows": 2600, "checksum": "1", "exact": True}),
    "an earlier checkpoint": lambda folder: changed(folder, updates=83),
    "no checkpoint": lambda folder: without_a_file(folder, "checkpoints"),
    "a damaged checkpoint": a_flipped_bit,
    "no model": lambda folder: without_a_file(folder, "model.keras"),
    "no exported model": lambda folder: without_a_file(folder, "saved_model"),
    "no metrics": lambda folder: without_a_file(folder, "metrics.jsonl"),
}


@pytest.mark.parametrize("harm", HARM)
def test_what_is_not_whole_is_no_end(copied, harm):
    config_hash = json.loads((copied / "run.json").read_text())["config_hash"]
    HARM[harm](copied)
    try:
        whole = is_whole(str(copied), RunRecord.read(str(copied)), config_hash)
    except InputError:
        whole = False
    assert whole == (harm == "nothing")


@pytest.mark.slow
def test_nodes_that_go_on_make_a_record_of_their_own(forked, digits, copied, monkeypatch):
    """What the earlier one tells of would no longer be there if they were killed in turn."""
    (copied / "model.keras").unlink()
    earlier, to_end = json.loads((copied / "run.json").read_text()), Run.to_end

    def begin(self, checkpoint):
        assert not (copied / "run.json").exists()
        return to_end(self, checkpoint)

    monkeypatch.setattr(Run, "to_end", begin)
    record = run(digits, copied, Options(resume=True), **KEYS)
    assert [each["how"] for each in record["attempts"]] == ["start", "resume"]
    assert (record["weights"], record["metrics"]) == (earlier["weights"], earlier["metrics"])
    assert (copied / "model.keras").exists()
