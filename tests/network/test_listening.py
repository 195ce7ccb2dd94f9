"""Where processes listen."""

from __future__ import annotations

import random
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import ConfigError
from sparksplit.network.listening import ANY, Network, check_bind, own_addresses, parse_ports


@given(st.integers(1024, 65535), st.integers(0, 1000), st.sampled_from(["-", " - ", "- "]))
def test_two_ports_in_their_order_are_a_range(low: int, more: int, between: str) -> None:
    high = min(low + more, 65535)
    assert parse_ports(f"{low}{between}{high}") == (low, high)


@given(st.text(max_size=12) | st.from_regex(r"\d{1,6}-\d{1,6}", fullmatch=True))
def test_whatever_is_no_range_is_refused(text: str) -> None:
    try:
        low, high = parse_ports(text)
    except ValueError:
        return
    assert 1024 <= low <= high <= 65535


@given(st.text(max_size=20))
def test_a_subnet_an_interface_or_an_error(text: str) -> None:
    try:
        assert check_bind(text) == text
    except ValueError as error:
        assert "subnet such as" in str(error)


@pytest.mark.parametrize("text", ["10.1.0.0/33", "::/0", "10.1/16", "", "a b", "a" * 16, "/"])
def test_what_is_neither_a_subnet_nor_an_interface(text: str) -> None:
    with pytest.raises(ValueError, match="subnet"):
        check_bind(text)


def test_this_hosts_addresses_are_known_by_their_interfaces() -> None:
    assert ("lo", "127.0.0.1") in own_addresses()


def test_the_address_in_a_subnet_or_of_an_interface() -> None:
    assert Network(bind="127.0.0.0/8").address("192.0.2.1") == "127.0.0.1"
    assert Network(bind="lo").address("192.0.2.1") == "127.0.0.1"
    assert ANY.address("192.0.2.1") == "192.0.2.1"
    with pytest.raises(ConfigError, match=r"bind: \S+ has no address in 203\.0\.113\.0/24; .*127\.0\.0\.1 \(lo\)"):
        Network(bind="203.0.113.0/24").address("")


def test_a_port_can_be_held_whose_last_connections_are_still_remembered() -> None:
    """As in the attempt after one whose nodes were killed, in a range that has as many ports as nodes need."""
    low = random.randrange(10_000, 30_000)  # the system gives these to nobody who asks for any
    with Network((low, low + 2000)).listen("127.0.0.1") as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as caller:
            server.accept()[0].close()
            assert not caller.recv(1)
    network = Network((port, port))
    with network.hold() as held:
        assert held.getsockname()[1] == port
        for opening in (network.hold, lambda: network.listen("127.0.0.1")):
            with pytest.raises(ConfigError, match="is free"):
                opening()


def test_a_port_that_is_busy_is_passed_over_until_none_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        low = first.getsockname()[1]
        network = Network((low, low + 3), kept=(low + 2,))
        taken = []
        with pytest.raises(
            ConfigError, match=f"ports: none of {low}-{low + 3} is free on .*three ports for each of its"
        ):
            while True:
                taken.append(network.listen("127.0.0.1"))
        ports = [each.getsockname()[1] for each in taken]
        assert set(ports) <= {low + 1, low + 3}
        assert ports == sorted(set(ports))
        for each in taken:
            each.close()


def test_a_port_that_is_held_is_busy_until_it_is_let_go() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        low = first.getsockname()[1]
    network = Network((low, low + 20))
    held = network.hold()
    port = held.getsockname()[1]
    with network.hold() as other, network.listen("127.0.0.1") as third:
        assert len({port, other.getsockname()[1], third.getsockname()[1]}) == 3
    held.close()
    with Network((port, port)).listen("127.0.0.1"):
        pass


def test_an_address_of_another_host_is_no_lack_of_ports() -> None:
    with pytest.raises(OSError, match="assign"):
        Network((40000, 40010)).listen("192.0.2.1")
