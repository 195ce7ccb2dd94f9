"""`devices` on real executors, on a GPU where there is one; and its mistakes, which are found before Spark starts."""

from __future__ import annotations

import json

import pytest

from sparksplit.commands.devices import COMMAND
from sparksplit.operations.devices import devices as devices_module
from sparksplit.operations.devices.devices_record import DevicesRecord


@pytest.mark.slow
def test_driver_and_executors_are_measured_with_a_step_of_the_users_model(spark, digits, tmp_path, capsys):
    train, output = tmp_path / "train.yaml", tmp_path / "found" / "devices.json"
    train.write_text(json.dumps({"data": "replaced", "output": "never", "model": {"params": {"hidden": [256]}}}))
    arguments = [
        "--train",
        str(train),
        "--data",
        str(digits),
        "--output",
        str(output),
        "--nodes",
        "2",
        "--limit",
        "280",
    ]
    assert COMMAND.main(arguments) == 0
    record = DevicesRecord.parse(output.read_text(), str(output))
    assert [one.who for one in record.processes] == ["driver", "executor 0", "executor 1"]
    assert not (tmp_path / "never").exists() and [each.name for each in output.parent.iterdir()] == ["devices.json"]
    for one in record.processes:
        assert one.problems == [] and one.tensorflow is not None and one.tensorflow.devices[0] == "CPU:0"
        gpus = len(one.tensorflow.gpus)
        assert bool(gpus) is (one.tensorflow.no_gpu is None)
        (products, *_) = one.products
        assert products.device == ("GPU:0" if gpus else "CPU:0") and len(products.sizes) >= 3
        assert max(each.of_best for each in products.sizes) == 1.0 and products.best > 0
        ways = {(each.source, each.target) for each in one.copies}
        assert {("host", products.device), (products.device, "host")} < ways or gpus == 1
        assert one.small_products is not None and one.small_products.fetched_once > 0
        assert gpus == 1 or (one.powers is not None and one.powers.n >= 50 and one.powers.logical is not gpus)
    assert record.processes[0].step is None
    for one in record.processes[1:]:
        assert one.threads == 1 and one.step is not None and (one.step.model, one.step.rows) == ("mlp", 64)
        # Two layers: two products forward, three back.
        products = [sum(n for name, n in counts.items() if "MatMul" in name) for counts in one.step.placed.values()]
        assert sum(products) == 5
        assert sum(each.calls for each in one.step.operations if "MatMul" in each.operation) == 5
        assert 0.1 < one.step.matrix_products <= 1 and one.step.convolutions == 0 and one.step.milliseconds > 0
    out = capsys.readouterr().out
    assert "a training step" in out and out.rstrip().endswith(f"devices    {output}")
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


@pytest.mark.slow
def test_a_mistake_in_the_model_is_the_users(spark, digits, tmp_path, capsys, monkeypatch):
    """Only a process with TensorFlow can find it. Nothing is measured before."""
    monkeypatch.setattr(devices_module, "look", lambda *_: pytest.fail("the driver's devices were measured"))
    train, output = tmp_path / "train.yaml", tmp_path / "devices.json"
    train.write_text(f"data: {digits}\noutput: never\nmodel:\n  params: {{activation: nope}}\n")
    assert COMMAND.main(["--train", str(train), "--output", str(output), "--nodes", "1", "--limit", "280"]) == 2
    assert f"sparksplit devices: {train}:4: model.params: mlp failed" in capsys.readouterr().err
    assert not output.exists()


@pytest.fixture
def no_spark(monkeypatch):
    """Fail where Spark would be started."""
    monkeypatch.setattr(devices_module, "spark_session", lambda *_, **__: pytest.fail("Spark was started"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nodes", "0"], "nodes: must be above 0 (is 0)"),
        (["--limit", "-1"], "limit: must be above 0 (is -1"),
        (["--data", "x"], "`data` needs `train`"),
        (["--train", "/no/such.yaml"], "/no/such.yaml: cannot be read: No such file or directory"),
        (["--output", "/proc"], "output: /proc is a folder"),
        (["--colour", "red"], "--colour"),
    ],
)
def test_mistakes_are_told_in_one_line_before_spark_starts(no_spark, arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert COMMAND.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sparksplit devices: ") and said in line


def test_a_missing_data_set_is_told_before_spark_starts(no_spark, tmp_path, capsys):
    train = tmp_path / "train.yaml"
    train.write_text("data: /no/such\noutput: never\n")
    assert COMMAND.main(["--train", str(train), "--output", str(tmp_path / "devices.json")]) == 2
    assert "/no/such" in capsys.readouterr().err
