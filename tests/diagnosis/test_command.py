"""The command around a diagnosis."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest
import yaml

from sparksplit.commands import cli
from sparksplit.commands import diagnose as command
from sparksplit.diagnosis.answer import Advice, Gain
from sparksplit.diagnosis.diagnosis_record import Diagnosis
from sparksplit.diagnosis.measured import Facts, Measured, Readers, Tried
from sparksplit.diagnosis.preprocess.preprocess_record import PreprocessDiagnosis
from sparksplit.diagnosis.words import words
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.training.train_config import TrainConfig
from tests.diagnosis.preprocess.made_up import answer, preparation

FACTS = Facts(
    nodes=2,
    rows=1000,
    row_bytes=80,
    own_rows=500,
    kept=True,
    first_reading=0.1,
    free_mb=1000,
    cores=2,
    threads=1,
    devices=["CPU"],
    sync_bytes=4000,
    model_bytes=4000,
    hosts=["host-0", "host-1"],
)
NAMES = ("full", "repeated", "no_copy", "no_sync", "no_compute", "compute", "forward_backward", "reading")
MEASURED = Measured(facts=FACTS, seconds={name: [1e-5, 1.1e-5, 1e-5, 0.9e-5, 1e-5] for name in NAMES})


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(command, "diagnose", lambda config: MEASURED)


@pytest.fixture
def file(tmp_path, digits):
    values = {"data": str(digits), "output": str(tmp_path / "run"), "nodes": 2, "strategy": "batch"}
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_what_was_found_is_beside_the_output_and_replaced_as_a_whole(measured, file, tmp_path, capsys):
    for _ in range(2):
        assert cli.main(["diagnose", "--config", str(file)]) == 0
        assert f"{tmp_path}/run-diagnosis/diagnosis.html" in capsys.readouterr().out
        names = {path.name for path in (tmp_path / "run-diagnosis").iterdir()}
        assert {
            "_CONFIG",
            "_SUCCESS",
            "diagnosis.json",
            "diagnosis.html",
        } <= names and ".diagnosis.json.0123abcd" not in names
        (tmp_path / "run-diagnosis" / ".diagnosis.json.0123abcd").touch()  # which a killed one has left
    record = Diagnosis.read(str(tmp_path / "run-diagnosis"))
    assert record.measured == MEASURED and record.hosts == ["host-0", "host-1"]
    page = (tmp_path / "run-diagnosis" / "diagnosis.html").read_text()
    assert html.escape(words(record.answer)[0], quote=False) in html.unescape(page)
    assert {path.name for path in tmp_path.iterdir()} == {"run-diagnosis", "train.yaml"}


def test_apply_writes_what_helps_and_nothing_else(monkeypatch, file, tmp_path, capsys):
    assert cli.main(["diagnose", "--apply", "--set", "data=x", "--set", "output=y"]) == 2
    assert "--apply: needs --config FILE" in capsys.readouterr().err
    before = file.read_text()
    monkeypatch.setattr(command, "diagnose", lambda config: MEASURED)
    assert cli.main(["diagnose", "--config", str(file), "--apply"]) == 0
    assert "stays as it is" in capsys.readouterr().out and file.read_text() == before
    full, fast = MEASURED.seconds["full"], [value / 2 for value in MEASURED.seconds["full"]]
    sweep = [Readers(1, full), Readers(4, fast)]
    better = Measured(facts=FACTS, seconds=MEASURED.seconds, readers=sweep, tried=[Tried({"readers": 4}, full, fast)])
    monkeypatch.setattr(command, "diagnose", lambda config: better)
    assert cli.main(["diagnose", "--config", str(file), "--apply"]) == 0
    assert "readers: 4" in capsys.readouterr().out
    assert yaml.safe_load(file.read_text()) == {**yaml.safe_load(before), "readers": 4}


def test_what_is_not_a_diagnosis_is_not_replaced(measured, file, tmp_path, capsys):
    (tmp_path / "run-diagnosis").mkdir()
    (tmp_path / "run-diagnosis" / "thesis.tex").touch()
    assert cli.main(["diagnose", "--config", str(file)]) == 2
    assert "exists and is not an output of sparksplit" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run-diagnosis").iterdir()] == ["thesis.tex"]


def test_a_configuration_is_known_by_its_keys():
    assert command.kind({"input", "output"}) is PreprocessConfig
    assert command.kind({"data", "output"}) is command.kind(()) is TrainConfig


def test_a_configuration_of_compare_is_called_one(tmp_path, capsys):
    file = tmp_path / "compare.yaml"
    file.write_text("data: d\noutput: o\nstrategies: [batch]\n")
    assert cli.main(["diagnose", "--config", str(file)]) == 2
    said = "strategies: is a key of compare; diagnose takes a configuration of train or of preprocess"
    assert capsys.readouterr().err == f"sparksplit diagnose: {said}\n"


def prepared(helps: bool) -> PreprocessDiagnosis:
    tried = Advice(settings={"file_size": 4096}, why="", gain=Gain(2.0, None, None), helps=helps)
    return preparation(answer=answer(keeping=[tried]), troubles=[])


@pytest.mark.parametrize("helps", [True, False])
def test_a_preparation_is_diagnosed_and_what_helps_applied(monkeypatch, tmp_path, capsys, helps):
    monkeypatch.setattr(command, "diagnose_preprocess", lambda config: prepared(helps))
    path = tmp_path / "preprocess.yaml"
    text = f"input: {{format: csv, path: {tmp_path}}}\noutput: {tmp_path / 'set'}\n"
    path.write_text(text)
    assert cli.main(["diagnose", "--config", str(path), "--apply"]) == 0
    out = capsys.readouterr().out
    assert "What limits: skew." in out and f"{tmp_path}/set-diagnosis/diagnosis.json" in out
    assert "What limits: skew." in (tmp_path / "set-diagnosis" / "diagnosis.html").read_text()
    found = (tmp_path / "set-diagnosis" / "diagnosis.json").read_text()
    assert PreprocessDiagnosis.parse(found, "it") == prepared(helps)
    assert path.read_text().startswith(text)
    assert ("file_size: 4096" in path.read_text()) == helps
    assert ("stays as it is" in out) != helps


def test_what_cannot_be_written_into_a_configuration_is_said(monkeypatch, tmp_path, capsys):
    found = prepared(True)
    found = replace(found, answer=answer(keeping=[replace(found.answer.keeping[0], settings={"spark.x": 1})]))
    monkeypatch.setattr(command, "diagnose_preprocess", lambda config: found)
    path = tmp_path / "preprocess.yaml"
    text = f"input: {{format: csv, path: {tmp_path}}}\noutput: {tmp_path / 'set'}\n"
    path.write_text(text)
    assert cli.main(["diagnose", "--config", str(path), "--apply"]) == 0
    out = capsys.readouterr().out
    assert "give --conf spark.x=1 to spark-submit" in out and path.read_text() == text
