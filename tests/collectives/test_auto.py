"""Which collective is chosen where the configuration leaves it open."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from hdfs_io.arrays import from_arrays
from sparksplit.collectives import join, together
from sparksplit.network.listening import ANY
from tests.nodes import in_threads
from tests.training.runs import MODELS, run


def joined(nodes, gathering=lambda rank, gather: gather):
    def member(rank, gather):
        return SimpleNamespace(
            rank=rank,
            size=nodes,
            host="127.0.0.1",
            secret=b"secret",
            gather=gathering(rank, gather),
            network=ANY,
            state=lambda **_: None,
        )

    return in_threads(nodes, lambda rank, gather: join("auto", None, member(rank, gather)))


def sums_of(made):
    generator = np.random.default_rng(1)
    given = [generator.standard_normal(1000).astype(np.float32) for _ in made]
    found = in_threads(len(made), lambda rank, _: np.array(made[rank].sum([given[rank]])[0]))
    for collective in made:
        collective.close()
    return {array.tobytes() for array in found}


def test_one_host_shares_memory_others_have_a_ring_and_the_bits_are_the_same(caplog):
    with caplog.at_level(logging.INFO):
        here = joined(3)

        def elsewhere(rank, gather):
            def moved(name, value):
                return gather(name, ["host 2 net:[1]", *value[1:]] if name == "shared memory" and rank == 2 else value)

            return moved

        apart = joined(3, elsewhere)
    why = "node 2 is on another host than node 0"
    assert {(each.name, each.reason) for each in here} == {("shared", "all 3 nodes are on one host")}
    assert {(each.name, each.reason) for each in apart} == {("ring", why)}
    said = [record.message for record in caplog.records if record.message.startswith("collective: ")]
    assert said == ["collective: shared: all 3 nodes are on one host", f"collective: ring: {why}"]
    assert len(sums_of(here) | sums_of(apart)) == 1


def test_what_is_in_the_way_is_the_reason(monkeypatch):
    monkeypatch.setattr(together.platform, "machine", lambda: "aarch64")
    (one, other) = made = joined(2)
    assert (one.name, one.reason) == (other.name, other.reason)
    assert one.name == "ring" and one.reason.endswith("order of writes (this is aarch64)")
    sums_of(made)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    x = np.random.default_rng(5).random((90, 3), np.float32)
    y = (x @ [1.0, -2.0, 0.5]).astype(np.float32)
    return from_arrays(
        str(tmp_path_factory.mktemp("auto") / "data"), {"train": (x, y), "test": (x[:9], y[:9])}, lanes=7
    ).path


@pytest.mark.parametrize("strategy", ["batch", "local"])
def test_runs_have_the_same_bits_and_say_what_summed(forked, data, tmp_path, strategy):
    settings = {
        "strategy": strategy, "nodes": 3, "epochs": 4, "batch_size": 16, "model": {"build": f"{MODELS}:linear"},
        "optimizer": {"learning_rate": 0.1}, "dtype": "float32",
    }  # fmt: skip
    found = {name: run(data, tmp_path / name, collective=name, **settings) for name in ("ring", "shared", "auto")}
    assert len({each["weights"] for each in found.values()}) == 1
    for name in ("metrics", "ledger", "sync_bytes_per_node", "config_hash"):
        assert found["ring"][name] == found["shared"][name] == found["auto"][name]
    assert found["ring"]["collective"] == {"name": "ring"}
    assert found["shared"]["collective"] == {"name": "shared"}
    assert found["auto"]["collective"] == {"name": "shared", "reason": "all 3 nodes are on one host"}
