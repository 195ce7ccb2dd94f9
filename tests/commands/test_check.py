"""`check` on real executors: all is well, a folder is not, and settings that keep Spark from starting."""

from __future__ import annotations

import pytest

from sparksplit.commands.check import COMMAND


def test_a_good_cluster_is_ready_and_the_jobs_group_does_not_stay(spark, tmp_path, capsys):
    assert COMMAND.main(["--path", str(tmp_path), "--nodes", "4"]) == 0
    out = capsys.readouterr().out
    assert out.rstrip().endswith("ready: no problem was found")
    assert out.count("executor ") == 4 and out.count("read, written") == 5 and out.count("all reached") == 5
    assert list(tmp_path.iterdir()) == []
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_too_few_executors_and_a_bad_folder_are_found_within_the_limit(spark, capsys):
    assert COMMAND.main(["--path", "/proc/self", "--nodes", "9", "--queue-timeout", "5"]) == 2
    captured = capsys.readouterr()
    assert (
        "nodes: 9 nodes need 9 executors, and the settings allow 4; set fewer nodes, or set spark.master to"
        in captured.out
    )
    assert "path: driver on " in captured.out
    assert captured.err.rstrip().endswith("sparksplit check: 2 problems, listed above")


@pytest.mark.slow
def test_a_run_is_checked_with_its_nodes_feeder_and_spool(spark, tmp_path, digits, monkeypatch, capsys):
    file = tmp_path / "train.yaml"
    file.write_text("data: /nowhere\noutput: /nowhere/run\nstrategy: epoch\nnodes: 3\ninput_mode: spark\n")
    arguments = ["--train", str(file), "--data", str(digits)]
    assert COMMAND.main(arguments) == 0
    with monkeypatch.context() as patched:
        patched.setattr("sparksplit.commands.check.spooled", lambda training: [2**60])
        assert COMMAND.main([*arguments, "--nodes", "4"]) == 2
    out = capsys.readouterr().out
    assert "nodes: 4 nodes need 5 executors (1 to feed them), and the settings allow 4" in out
    assert "\nspark.local.dir: " in out and "spool 1099511627776 MiB each there" in out
    assert COMMAND.main(arguments[:2]) == 2
    assert "/nowhere: not a prepared data set" in capsys.readouterr().err
    assert COMMAND.main(arguments[2:]) == 2
    assert "data: needs train" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--nodes", "--queue-timeout"])
def test_bad_arguments_are_named(flag, capsys):
    assert COMMAND.main([flag, "0"]) == 2
    assert f"{flag[2:].replace('-', '_')}: must be above 0 (is 0)" in capsys.readouterr().err
