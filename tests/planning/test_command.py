"""The command around a plan; the nodes' measurements are made up."""

from __future__ import annotations

import json

import pytest
import yaml

from sparksplit.base.config import parse
from sparksplit.base.errors import Cancelled, NodeFailed
from sparksplit.commands import cli
from sparksplit.comparison.comparison_record import SweepPoint
from sparksplit.comparison.costs import ethernet
from sparksplit.planning import plan as planning
from sparksplit.planning.branching import unbranched
from sparksplit.planning.plan_config import PlanConfig
from sparksplit.training.train_config import TrainConfig
from tests.forked import session
from tests.planning.made_up import measured
from tests.planning.test_useful import branched


@pytest.fixture
def file(tmp_path, digits, monkeypatch):
    monkeypatch.setattr(
        planning, "measure", lambda config, sizes, branch_seconds: measured(branched=branched(1.0, 0.7))
    )
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump({"data": str(digits), "output": str(tmp_path / "run"), "epochs": 4}))
    return path


def test_a_plan_is_beside_the_output_and_on_the_terminal(file, tmp_path, capsys):
    for _ in range(2):  # the second replaces the first
        assert cli.main(["plan", "--config", str(file), "--link", "10Gbit"]) == 0
    told = capsys.readouterr().out
    content = json.loads((tmp_path / "run-plan" / "plan.json").read_text())
    assert content["link"] == "10Gbit" and content["link_source"] == "given"
    assert f"{tmp_path}/run-plan/plan.json" in told and "Next: sparksplit train" in told
    assert content["useful"]["batch_size"] == 128 and "Useful mini-batch: 128 rows" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--link", "fast"], "link: must be a bandwidth such as 1Gbit or 100Mbit (is fast)"),
        (["--set", "strategies=[bacth]"], "bacth"),
        (["--set", "most_nodes=0"], "most_nodes"),
        (["--set", "branch_seconds=-1"], "branch_seconds"),
    ],
)
def test_mistakes_are_told_in_one_line_before_anything_is_measured(file, tmp_path, capsys, arguments, told):
    assert cli.main(["plan", "--config", str(file), *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not (tmp_path / "run-plan" / "plan.json").exists()


def test_more_nodes_than_lanes_are_not_planned_for(file, capsys):
    assert cli.main(["plan", "--config", str(file), "--set", "most_nodes=1000"]) == 0
    assert "lanes, and a node needs a lane" in capsys.readouterr().err


def test_without_a_link_one_host_says_what_was_assumed(file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(planning, "measure", lambda config, sizes, branch_seconds: measured(hosts=["one", "one"]))
    assert cli.main(["plan", "--config", str(file)]) == 0
    assert "Network between hosts: 10Gbit, assumed" in capsys.readouterr().out


@pytest.mark.parametrize(("gbit", "told"), [(110, "110.0Gbit"), (9.42, "9.4Gbit"), (0.05, "50Mbit"), (1e-4, "1Mbit")])
def test_a_measured_link_is_written_as_a_link_is_given(gbit, told):
    link = ethernet(gbit)
    sweep = [SweepPoint(2, size, link.seconds(2, 1, size)) for size in (1 << 10, 1 << 20, 1 << 24)]
    written = planning._written(measured(sweep=sweep))
    assert written == told and parse(PlanConfig, {"data": "d", "output": "o", "link": written}).planned_link


class Cluster:
    """Nodes of which one ends. found: what it has sent before."""

    found, error = None, NodeFailed("node 0 was killed")

    def __init__(self, *_, on_state, **__):
        self._on_state = on_state

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return

    def run(self):
        self._on_state(0, {"phase": "measuring"} | ({} if self.found is None else {"measured": self.found}))
        raise self.error


def test_a_node_that_ends_in_branches_leaves_its_measurements(digits, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sparksplit.cluster.NodeCluster", Cluster)
    monkeypatch.setattr(planning, "spark_session", session)
    monkeypatch.setattr(planning, "explained", lambda error, *_: error)
    config = parse(TrainConfig, {"data": str(digits), "output": str(tmp_path / "run"), "nodes": 2, "strategy": "batch"})
    with pytest.raises(NodeFailed, match="killed"):
        planning.measure(config, [64, 32])
    monkeypatch.setattr(Cluster, "found", measured().to_json())
    assert planning.measure(config, [64, 32]) == measured()
    told = capsys.readouterr().err
    assert "the useful mini-batch was not found: node 0 was killed" in told and "measuring took" not in told
    monkeypatch.setattr(Cluster, "found", measured(branched=unbranched(config)).to_json())
    found = planning.measure(config, [64, 32]).branched
    assert found is not None and (found.problem, found.why) == ("node", "node 0 was killed")
    capsys.readouterr()
    monkeypatch.setattr(Cluster, "found", measured(seconds=95.0).to_json())
    planning.measure(config, [64, 32])
    assert "measuring took 95 s: steps are slow, or the machine is busy (a step of 64 rows takes 7.40 ms)" in (
        capsys.readouterr().err
    )
    monkeypatch.setattr(Cluster, "error", Cancelled("by hand"))
    with pytest.raises(Cancelled):
        planning.measure(config, [64, 32])
