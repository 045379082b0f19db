"""Addresses as people write them, connections over IPv4 and IPv6, and the network whose limits count."""

import asyncio
import socket

import pytest
import zmq
from free_ports import free_base_port
from router_socket import dealer

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.ports import (
    Address,
    check_base_port,
    network_of,
    parse_address,
    parse_listen,
    place_to_listen,
    wants_ipv6,
)
from azselfplay.link.door import Door
from azselfplay.link.sockets import Channel, new_context

PATIENCE = 20.0


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("::1", "::1", 5600), ("[::1]", "::1", 5600), ("[::1]:7", "::1", 7), ("fd00::2", "fd00::2", 5600),
     ("2001:db8:0:0:0:0:0:2", "2001:db8:0:0:0:0:0:2", 5600), ("::", "::", 5600),
     ("[::ffff:10.0.0.1]:7", "::ffff:10.0.0.1", 7), ("fe80::1%eth0", "fe80::1%eth0", 5600),
     ("host", "host", 5600), ("host:7", "host", 7)],
)  # fmt: skip
def test_an_ipv6_address_is_bare_or_in_brackets_before_its_port(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == Address(host, port)
    assert parse_address(address.server) == address


@pytest.mark.parametrize("text", ["::1:5600", "fd00::1:7", "fe80::5600:5600"])
def test_an_ipv6_address_that_may_end_in_a_port_is_refused_with_both_readings(text: str) -> None:
    """Without brackets nobody can tell which one is meant (RFC 5952, section 6)."""
    before, _, last = text.rpartition(":")
    with pytest.raises(Fatal) as error:
        parse_address(text)
    assert f"[{before}]:{last} or [{text}]?" in str(error.value)
    assert error.value.code == Exit.CONFIG


@pytest.mark.parametrize(
    "text",
    ["host:1:2", "[::1", "[::1]5600", "[host]:1", "[]", "[::1]:", "host:", "1.2.3.4:5:6", "::g", "[::1]:0",
     "a]b", ":", "host:99999999999", "host:\u0665", "h\0st", "", "a b", "tcp://host", "host:0", "host:65535",
     "user@host"],
)  # fmt: skip
def test_what_is_no_address_gets_a_sentence(text: str) -> None:
    with pytest.raises(Fatal, match="is not a"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "port", "parts"),
    [("::", 5600, ("::", 5600)), ("[::]", 5700, ("::", 5700)), ("[::]:5700", 5600, ("::", 5700)),
     ("*", 1, ("*", 1))],
)  # fmt: skip
def test_what_to_listen_on_may_name_the_port(text: str, port: int, parts: tuple[str, int]) -> None:
    assert parse_listen(text, port) == parts


def test_two_ports_to_listen_on_are_one_too_many() -> None:
    with pytest.raises(Fatal, match="two ports"):
        parse_listen("[::]:5800", 5700)


@pytest.mark.parametrize(
    ("address", "network"),
    [("10.0.0.1", "10.0.0.1"), ("2001:db8::ffff:1:2:3", "2001:db8::/64"), ("fe80::1%eth0", "fe80::/64"),
     ("2001:db8:0:1::1", "2001:db8:0:1::/64"), ("::ffff:10.0.0.1", "10.0.0.1")],
)  # fmt: skip
def test_limits_go_by_the_network_that_one_host_has_for_itself(address: str, network: str) -> None:
    assert network_of(address) == network


def free_ipv6() -> str:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:  # as in a container of Docker
        pytest.skip(f"there is no IPv6: {error}")
    return f"tcp://[::1]:{free_base_port()}"


async def echoed(endpoint: str, dialled: str) -> tuple[bytes, str]:
    """Dial a door with libzmq. Return what comes back, and the address that the door saw."""
    context, inbox, seen = new_context(), asyncio.Queue[bytes](), list[str]()
    door = Door([endpoint])

    def on_message(peer: bytes, frames: list[memoryview]) -> None:
        seen.append(door._connections[peer].address)
        door.send(peer, frames)

    door.start(on_message, lambda _peer, _why: None)
    channel = Channel(dealer(context, dialled), lambda frames: inbox.put_nowait(bytes(frames[0])))
    channel.start()
    try:
        async with asyncio.timeout(PATIENCE):
            assert channel.send([b"over ::1"])
            return await inbox.get(), seen[0]
    finally:
        channel.close()
        door.close()
        context.destroy(0)


def test_a_client_reaches_a_server_over_ipv6() -> None:
    endpoint = free_ipv6()
    assert asyncio.run(echoed(endpoint, endpoint)) == (b"over ::1", "::/64")


def test_a_server_that_listens_on_all_addresses_is_reached_over_ipv4_too_and_counts_it_as_such() -> None:
    port = free_ipv6().rpartition(":")[2]
    assert asyncio.run(echoed(f"tcp://[::]:{port}", f"tcp://127.0.0.1:{port}")) == (b"over ::1", "127.0.0.1")


def test_a_name_with_addresses_of_both_kinds_is_listened_on_where_it_is_dialled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    families = (socket.AF_INET6, socket.AF_INET, socket.AF_INET)
    found = [(family, 1, 6, "", (f"place {index}", 7)) for index, family in enumerate(families)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert place_to_listen("localhost", 7) == (socket.AF_INET, ("place 1", 7))
    del found[1:]
    assert place_to_listen("localhost", 7) == (socket.AF_INET6, ("place 0", 7))


def test_a_name_without_an_ipv4_address_is_dialled_over_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ip6-localhost` is such a name where /etc/hosts has it. Here a patched resolver plays its part."""
    endpoint, real = free_ipv6(), socket.getaddrinfo

    def only_ipv6(host: str, port: object, family: int = 0, *rest: int, **more: int) -> list:
        if host == "localhost" and family == socket.AF_INET:
            raise socket.gaierror(socket.EAI_NONAME, "no IPv4 address")
        if host == "localhost" and family == socket.AF_INET6:
            host = "::1"
        return real(host, port, family, *rest, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(socket, "getaddrinfo", only_ipv6)
    context = new_context()
    try:
        assert dealer(context, endpoint.replace("[::1]", "localhost")).get(zmq.IPV6) == 1
        assert dealer(context, "tcp://127.0.0.1:1").get(zmq.IPV6) == 0
    finally:
        context.destroy(0)


def test_a_name_that_cannot_be_looked_up_is_dialled_over_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a machine boots, its name server may be away; libzmq looks the name up at each dial."""

    def away(*_: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", away)
    assert not wants_ipv6("gpu-box")


def test_when_the_second_port_is_in_use_the_first_is_named_too() -> None:
    port = free_base_port()
    told = f"--port {port} takes the ports {port} and {port + 1}, and port {port + 1} is in use"
    with socket.create_server(("127.0.0.1", port + 1)), pytest.raises(Fatal, match=told) as caught:
        check_base_port("127.0.0.1", port)
    assert caught.value.code == Exit.TRY_AGAIN
