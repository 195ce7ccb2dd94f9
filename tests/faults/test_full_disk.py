"""A run whose output's disk is full: one line, tried again, nothing half-published, and on it goes with more room."""

from __future__ import annotations

import subprocess

import pytest

from sparksplit.base.errors import NodeFailed
from tests.disks import small_disk
from tests.training.runs import MOMENTUM, largest_difference, run, weights


@pytest.mark.slow
def test_a_run_goes_on_when_its_disk_has_room_again(forked, digits, tmp_path, capsys):
    keys = {
        "batch_size": 130, "epochs": 3, "optimizer": MOMENTUM, "model": {"params": {"hidden": [256]}},
        "checkpoint": {"every": "epoch"},
    }  # fmt: skip
    straight = run(digits, tmp_path / "straight", **keys)
    # One checkpoint of 160 kB fits.
    with small_disk(tmp_path / "disk", 300) as disk:
        output = disk / "run"
        full = rf"^node 0 on .*: {output}/\S+: cannot be written: No space left on device$"
        with pytest.raises(NodeFailed, match=full):
            run(digits, output, max_restarts=1, **keys)
        said = capsys.readouterr().err
        assert f"restart 1 of 1 from {output}/checkpoints/update-000000010" in said
        assert "the same command goes on from it" in said
        assert [path.name for path in (output / "checkpoints").iterdir()] == ["update-000000010"]
        assert not list(disk.rglob(".*"))
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        resumed = run(digits, output, max_restarts=1, **keys)
        assert resumed["ledger"] == straight["ledger"] and resumed["ledger"]["exact"]
        assert resumed["restarts"] == 1
        assert largest_difference(weights(output), weights(tmp_path / "straight")) == 0
