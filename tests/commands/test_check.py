"""`check` on real executors: all is well, a folder is not, and settings that keep Spark from starting."""

from __future__ import annotations

import pytest

from sparksplit.commands.check import COMMAND


def test_a_good_cluster_is_ready(spark, tmp_path, capsys):
    assert COMMAND.main(["--path", str(tmp_path), "--nodes", "4"]) == 0
    out = capsys.readouterr().out
    assert out.rstrip().endswith("ready: nothing was found that would break a run")
    assert out.count("executor ") == 4 and out.count("read, written") == 5 and out.count("all reached") == 5
    assert list(tmp_path.iterdir()) == []


def test_too_few_executors_and_a_bad_folder_are_found_within_the_limit(spark, capsys):
    assert COMMAND.main(["--path", "/proc/self", "--nodes", "9", "--timeout", "5"]) == 2
    captured = capsys.readouterr()
    assert "nodes: 9 nodes need 9 executors and there are 4; set fewer nodes, or spark.master to" in captured.out
    assert "path: driver on " in captured.out
    assert captured.err.rstrip().endswith("sparksplit check: 2 things to put right, listed above")


def test_the_jobs_group_does_not_stay(spark):
    assert COMMAND.main(["--nodes", "2"]) == 0
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


@pytest.mark.parametrize("flag", ["--nodes", "--timeout"])
def test_bad_arguments_are_named(flag, capsys):
    assert COMMAND.main([flag, "0"]) == 2
    assert f"{flag[2:]}: must be above 0 (is 0)" in capsys.readouterr().err
