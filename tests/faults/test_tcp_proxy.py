"""The proxy does exactly what it says; otherwise results measured through it would mean nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tcp_proxy import HOST, Proxy

TEXT = bytes(range(256)) * 40

Talk = Callable[[Proxy, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def through_a_proxy(talk: Talk) -> None:
    """A connection through a proxy to a server that echoes."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()

    async with asyncio.timeout(60):
        server = await asyncio.start_server(echo, HOST, 0)
        async with Proxy(server.sockets[0].getsockname()[1]) as proxy:
            reader, writer = await asyncio.open_connection(HOST, proxy.port)
            try:
                await talk(proxy, reader, writer)
            finally:
                writer.close()
        server.close()


def test_bytes_pass_unchanged_in_any_pieces() -> None:
    async def talk(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.set(piece=7, jitter=0.0001)
        writer.write(TEXT[:1000])
        assert await reader.readexactly(1000) == TEXT[:1000]
        assert proxy.counts.pieces > 250

    asyncio.run(through_a_proxy(talk))


def test_a_flipped_byte_is_one_bit() -> None:
    async def talk(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.set(flipped=1.0)
        proxy.down = type(proxy.up)()
        writer.write(b"\0" * 100)
        got = await reader.readexactly(100)
        assert sum(byte.bit_count() for byte in got) == proxy.counts.flipped == 1

    asyncio.run(through_a_proxy(talk))


def test_repeated_bytes_come_twice() -> None:
    async def talk(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.set(repeated=1.0)
        writer.write(b"once")
        assert await reader.readexactly(16) == b"once" * 4

    asyncio.run(through_a_proxy(talk))


def test_a_truncated_piece_ends_the_connection() -> None:
    async def talk(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.down = type(proxy.down)(truncated=1.0)
        writer.write(b"12345678")
        assert await reader.read() == b"1234"

    asyncio.run(through_a_proxy(talk))


def test_a_reset_is_seen_at_once() -> None:
    async def talk(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert proxy.reset_all() == 2
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)

    asyncio.run(through_a_proxy(talk))


def test_a_stall_ends_nothing_and_loses_nothing() -> None:
    async def talk(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.stall()
        writer.write(b"later")
        await writer.drain()
        answer = asyncio.ensure_future(reader.readexactly(5))
        done, _ = await asyncio.wait({answer}, timeout=0.05)
        assert not done
        proxy.go_on()
        assert await answer == b"later"

    asyncio.run(through_a_proxy(talk))


def test_a_half_closed_connection_still_speaks_the_other_way() -> None:
    async def talk(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        proxy.down = type(proxy.down)(half_closed=1.0)
        writer.write(b"two")
        assert await reader.read() == b""
        writer.write(b"three")
        await writer.drain()
        assert proxy.counts.half_closed == 1

    asyncio.run(through_a_proxy(talk))
