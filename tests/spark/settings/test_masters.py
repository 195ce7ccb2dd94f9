"""Standalone masters that are there, or are not."""

from __future__ import annotations

import socket

import pytest

from sparksplit.base.errors import ConfigError, RunError, SparksplitError
from sparksplit.spark.settings.masters import addresses_of, await_master, check_known


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:1,b.c:2", [("a", 1), ("b.c", 2)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("spark://a", []),
        ("spark://a:1,b", []),
        ("spark://a:99999", []),
        ("yarn", []),
        ("local-cluster[2,1,1024]", []),
        ("k8s://https://a:443", []),
        ("", []),
    ],
)
def test_addresses(master: str, addresses: list[tuple[str, int]]) -> None:
    assert addresses_of(master) == addresses
    if not addresses:
        await_master(master, 0)


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        await_master(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{master.getsockname()[1]}", 0)


def test_masters_that_refuse_are_all_named() -> None:
    ports = [closed_port(), closed_port()]
    refused = "; ".join(f"127.0.0.1:{port}: Connection refused" for port in ports)
    with pytest.raises(RunError, match=rf"^spark\.master: spark://.* cannot be reached: {refused}$"):
        await_master(f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}", 0)


def test_a_name_that_nobody_has() -> None:
    """The user's mistake where a name server says so, and otherwise one that passes."""
    with pytest.raises(SparksplitError, match=r"^spark\.master: spark://no-such-host\.invalid:1"):
        await_master("spark://no-such-host.invalid:1", 0)


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_what_is_no_hosts_name_is_said(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"^spark\.master: spark://{host}:7077: '{host}' is not a host name$"):
        await_master(f"spark://{host}:7077", 0)


def test_a_cluster_that_spark_could_not_know_is_refused() -> None:
    check_known({"spark.master": "yarn", "spark.driver.host": "127.0.0.1"}, {"HADOOP_CONF_DIR": "/etc/hadoop"})
    with pytest.raises(ConfigError, match=r"^HADOOP_CONF_DIR: must be the folder"):
        check_known({"spark.master": "yarn"}, {})
    with pytest.raises(ConfigError, match=r"^spark\.driver\.host: unknown host 'no-such-host\.invalid'"):
        check_known({"spark.driver.host": "no-such-host.invalid"}, {})
