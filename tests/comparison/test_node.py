"""What a comparison's nodes count as a run's own time, without Spark and TensorFlow."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

from sparksplit.comparison import node
from sparksplit.comparison.comparison_record import HandOff, NodeMeasured, Place, Probe, SweepPoint
from sparksplit.training.report import versions
from tests.replaced import replaced


def test_what_is_done_once_for_a_cluster_is_not_of_its_first_runs_seconds(monkeypatch):
    """Was: single 12.6 s, every run after it 0.57 s, and pictures charged the cluster to the strategy that ran
    first."""
    now, began, recorded = [100.0], [], []

    def takes(seconds, result=None):
        def done(*_, **__):
            now[0] += seconds
            return result

        return done

    def train_once(own, run, config, collective, start, rows):
        began.append(now[0] - start)
        now[0] += 0.5
        return SimpleNamespace(in_brief=lambda: SimpleNamespace(to_json=dict))

    config = SimpleNamespace(input_mode="spark")
    runs = [SimpleNamespace(key=key, sources={}, train_config=lambda: config) for key in ("a", "b", "c")]
    payload = SimpleNamespace(runs=runs, threads=1, cluster="local")
    replaced(monkeypatch, node, "time", perf_counter=lambda: now[0])
    monkeypatch.setattr(node.ClusterPayload, "from_json", lambda *_: payload)
    monkeypatch.setattr(node.NodeResult, "from_json", lambda *_: None)
    monkeypatch.setattr(node, "configure", takes(2.0))
    monkeypatch.setattr(node, "connect", takes(1.0, SimpleNamespace(close=lambda: None)))
    monkeypatch.setattr(node, "_handed_over", takes(5.0, (None, HandOff(5.0, (1,), 3, True))))
    monkeypatch.setattr(node, "_measure", takes(4.0, SimpleNamespace(to_json=dict)))
    monkeypatch.setattr(node, "_forget", takes(0.1))
    monkeypatch.setattr(node, "_gpus", list)
    monkeypatch.setattr(node, "train_once", train_once)
    monkeypatch.setattr(node, "_record", lambda *given: recorded.append(now[0] - given[-1]))
    node.work(MagicMock(rank=0, size=1, gather=lambda name, value, beside: [value]))
    assert began == [0.0, 0.0, 0.0] and recorded == [0.5, 0.5, 0.5]


def test_nodes_measure_again_only_where_nobody_has_measured(monkeypatch):
    """Was: a comparison that went on elsewhere kept the sums of the old cluster."""
    here = Place("spark://a", ("EPYC",), 1)
    there, more_threads = replace(here, cluster="spark://b"), replace(here, threads=2)
    probe, sums = Probe(10.0, 2.0), [SweepPoint(2, 1024, 0.5)]
    monkeypatch.setattr(node, "probe", lambda *_: probe)
    monkeypatch.setattr(node, "sweep", lambda _: sums)
    monkeypatch.setattr(node, "_forget", lambda _: None)
    monkeypatch.setattr(node, "_gpus", lambda: ["L4"])
    done = [NodeMeasured(here, 1, ["L4"], probe), NodeMeasured(here, 2, ["L4"], sweep=sums)]

    def measured(place, size):
        payload = SimpleNamespace(measured=[one for one in done if one.nodes == size], runs=[None])
        return node._measure(payload, place, SimpleNamespace(size=size), None, None, None)

    assert measured(here, 1) == NodeMeasured(here, 1, ["L4"]) and measured(here, 2) == NodeMeasured(here, 2, ["L4"])
    for place in (there, more_threads):
        assert measured(place, 1) == NodeMeasured(place, 1, ["L4"], probe)
        assert measured(place, 2) == NodeMeasured(place, 2, ["L4"], sweep=sums)
    assert measured(here, 3) == NodeMeasured(here, 3, ["L4"], sweep=sums)


def test_a_clusters_place_has_each_kind_of_host_once_and_the_versions(monkeypatch):
    monkeypatch.setattr(node, "_gpus", list)
    kinds = ["Xeon, 2 cores", "EPYC, 2 cores", "Xeon, 2 cores"]
    member = SimpleNamespace(gather=lambda name, value: kinds)
    payload, config = SimpleNamespace(cluster="yarn", threads=2), SimpleNamespace(input_mode="spark")
    place = node._place(payload, member, config)
    known = versions()
    assert place == Place(
        "yarn", ("EPYC, 2 cores", "Xeon, 2 cores"), 2, "spark",
        (f"sparksplit {known['sparksplit']}", f"tensorflow {known['tensorflow']}"),
    )  # fmt: skip
