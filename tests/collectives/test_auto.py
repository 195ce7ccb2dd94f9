"""Which collective is chosen where the configuration leaves it open."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from sparksplit.collectives import join, segment, together
from sparksplit.collectives.auto import chosen
from sparksplit.collectives.together import Meeting
from sparksplit.dataset.arrays import from_arrays
from sparksplit.network.listening import ANY, Network
from tests.collectives.formed import on
from tests.nodes import in_threads
from tests.training.runs import MODELS, run


def joined(hosts, name="auto", network=ANY):
    """The collectives of nodes on these hosts, by rank: each letter is one."""

    def member(rank, gather):
        return SimpleNamespace(
            rank=rank,
            size=len(hosts),
            host="127.0.0.1",
            secret=b"secret",
            gather=on(hosts, gather),
            network=network,
            state=lambda **_: None,
        )

    return in_threads(len(hosts), lambda rank, gather: join(name, None, member(rank, gather)))


def sums_of(made):
    generator = np.random.default_rng(1)
    given = [generator.standard_normal(1000).astype(np.float32) for _ in made]
    found = in_threads(len(made), lambda rank, _: np.array(made[rank].sum([given[rank]])[0]))
    for collective in made:
        collective.close()
    return {array.tobytes() for array in found}


def test_what_sums_depends_on_who_shares_a_host_and_the_bits_do_not(caplog):
    with caplog.at_level(logging.INFO):
        formed = [joined(hosts) for hosts in ("aaaa", "aabb", "abcd")]
    expected = [
        ("shared", "all 4 nodes are on one host"),
        ("mixed", "4 nodes are on 2 hosts, up to 2 of them on one"),
        ("ring", "node 1 is on another host than node 0"),
    ]
    assert [{(each.name, each.reason) for each in made} for made in formed] == [{each} for each in expected]
    said = [record.message for record in caplog.records if record.message.startswith("collective: ")]
    assert said == [f"collective: {name}: {reason}" for name, reason in expected]
    assert len(set.union(*map(sums_of, formed))) == 1


@pytest.mark.parametrize(
    ("hosts", "name", "reason"),
    [
        ("aab", "mixed", "3 nodes are on 2 hosts, up to 2 of them on one"),
        ("abbb", "mixed", "4 nodes are on 2 hosts, up to 3 of them on one"),
        ("abab", "ring", "no two nodes with consecutive ranks are on one host"),
        (
            "abbaa",
            "mixed",
            "5 nodes are on 2 hosts, up to 3 of them on one; their ranks are not grouped by host, so 3 groups"
            " exchange over TCP",
        ),
    ],
)
def test_nodes_of_one_host_share_memory_where_they_follow_one_another(hosts, name, reason):
    places = [f"{host} net:[1]" for host in hosts]
    assert chosen(Meeting(None, places, None, places, [None] * len(hosts))) == (name, reason)


@pytest.mark.parametrize(("hosts", "groups"), [("aabb", None), ("abab", 4), ("abba", 3)])
def test_mixed_by_name_says_how_nodes_are_spread_and_sums_wherever_they_are(caplog, hosts, groups):
    with caplog.at_level(logging.INFO):
        made = joined(hosts, name="mixed")
    (said,) = [record.message for record in caplog.records if record.message.startswith("collective: ")]
    assert said.startswith("collective: mixed: 4 nodes are on 2 hosts, up to 2 of them on one")
    assert (f"not grouped by host, so {groups} groups" in said) == (groups is not None)
    assert sums_of(made) == sums_of(joined("abcd", name="ring"))


@pytest.mark.parametrize("hosts", ["aa", "aabb"])
def test_what_is_in_the_way_is_the_reason_on_all_nodes(monkeypatch, hosts):
    def falls_back(reason):
        made = joined(hosts)
        assert {each.name for each in made} == {"ring"} and {each.reason for each in made} == {made[0].reason}
        assert reason in made[0].reason
        sums_of(made)

    with monkeypatch.context() as patched:
        patched.setattr(together.platform, "machine", lambda: "aarch64")
        falls_back("needs an x86 processor (this is aarch64)")
    with monkeypatch.context() as patched:
        patched.setattr(together, "MOST_NODES", 1)
        falls_back("2 nodes are more than the 1 that can share memory")
    with monkeypatch.context() as patched:

        def full(*_):
            raise OSError(28, "No space left on device")

        patched.setattr(segment.os, "posix_fallocate", full)
        patched.setattr(together, "SECONDS", 0.5)
        falls_back("of memory that the nodes of one host share: No space left on device")


@pytest.mark.parametrize("hosts", ["aa", "aabb", "ab"])
def test_memory_is_shared_where_the_network_is_encrypted_too(hosts):
    name = {"aa": "shared", "aabb": "mixed", "ab": "ring"}[hosts]
    made = joined(hosts, network=Network(tls=True))
    assert {each.name for each in made} == {name}
    assert len(sums_of(made)) == 1


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    x = np.random.default_rng(5).random((90, 3), np.float32)
    y = (x @ [1.0, -2.0, 0.5]).astype(np.float32)
    return from_arrays(
        str(tmp_path_factory.mktemp("auto") / "data"), {"train": (x, y), "test": (x[:9], y[:9])}, lanes=7
    ).path


@pytest.mark.slow
def test_runs_have_the_same_bits_and_say_what_summed(forked, data, tmp_path):
    """Gradients at each step that one chooses to be summed through shared memory, and deltas where it is left open."""
    settings = {
        "nodes": 3, "epochs": 4, "batch_size": 16, "model": {"build": f"{MODELS}:linear"},
        "optimizer": {"learning_rate": 0.1}, "dtype": "float32",
    }  # fmt: skip
    for strategy, named, said in (
        ("batch", {"collective": "shared"}, {"name": "shared"}),
        ("local", {}, {"name": "shared", "reason": "all 3 nodes are on one host"}),
    ):
        ring = run(data, tmp_path / f"{strategy}-ring", strategy=strategy, collective="ring", **settings)
        found = run(data, tmp_path / strategy, strategy=strategy, **named, **settings)
        for name in ("weights", "metrics", "ledger", "sync_bytes_per_node", "config_hash"):
            assert found[name] == ring[name]
        assert (ring["collective"], found["collective"]) == ({"name": "ring"}, said)
