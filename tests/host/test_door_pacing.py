"""A peer whose messages bring no work is read more slowly, and cut if it does not stop."""

from __future__ import annotations

import asyncio
import heapq
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import pytest
from free_ports import free_base_port
from raw_zmtp import GREETING, Cut, RawPeer, dial, frame, ready

from azselfplay.host.listening import CROWD, CROWD_PAUSE, Listener
from azselfplay.link.door import LOCKED_PRICE, Door
from azselfplay.link.door_connection import DoorLimits
from azselfplay.link.pacing import (
    CONNECTION_PRICE,
    LEAST_PAUSE,
    LONGEST_DEBT,
    LONGEST_GREETING,
    LONGEST_PAUSE,
    PRICED_BYTES,
    AddressPaces,
    Pace,
    PaceLimits,
    end_of_pause,
    pause_of,
)

PATIENCE = 60.0
SLOW = PaceLimits(rate=0.001, burst=3)
"""With this rate, more than the burst would take longer to be forgiven than the door has patience."""


def test_a_burst_is_taken_at_once_and_then_so_many_a_second() -> None:
    pace = Pace(PaceLimits(rate=10.0, burst=3.0), now=0.0)
    assert [pace.take(0.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert not pace.is_rested(0.4)
    assert pace.take(0.3) == 0.0
    assert [pace.is_rested(now) for now in (0.59, 0.61)] == [False, True]
    assert [pace.take(9.0) for _ in range(4)] == pytest.approx([0, 0, 0, 0.1]), (
        "rest earns no more than a burst"
    )


def test_each_address_has_a_pace_and_this_machine_has_none() -> None:
    paces = AddressPaces(PaceLimits(rate=10.0, burst=3.0))
    assert [paces.take("a", 0.0, tokens) for tokens in (3.0, 5.0)] == pytest.approx([0, 0.5])
    assert (paces.take("b", 0.0), paces.take("", 0.0, 1e9), paces.wait("", 0.0)) == (0, 0, 0)
    assert [paces.wait("a", now) for now in (0.0, 0.4, 0.5)] == pytest.approx([0.5, 0.1, 0])
    paces.tidy(0.5)
    assert len(paces) == 1
    paces.tidy(0.9)
    assert len(paces) == 0


def test_any_debt_is_paid_within_a_minute() -> None:
    assert Pace(PaceLimits(rate=10.0, burst=3.0), now=0.0).take(0.0, 1e9) == LONGEST_DEBT


def test_a_short_wait_is_none_and_pauses_end_together() -> None:
    assert [pause_of(wait) for wait in (0.0, 0.09, 0.1, 3.0, 60.0)] == [0.0, 0.0, 0.1, 3.0, LONGEST_PAUSE]
    ends = {round(end_of_pause(7.0, pause), 6) for pause in (0.11, 0.15, 0.2)}
    assert ends == {7.2}


@pytest.mark.parametrize("price", [CONNECTION_PRICE, LOCKED_PRICE])
def test_a_thousand_workers_behind_one_address_are_all_there_within_half_a_minute(price: float) -> None:
    """Each connects again 0.3 s after it was turned away, as libzmq does, and sends HELLO once it is
    greeted."""
    paces = AddressPaces(DoorLimits().talk_of_address)
    dials = [(number / 1000, number) for number in range(1000)]
    last = 0.0
    while dials:
        now, number = heapq.heappop(dials)
        if paces.wait("many", now) > LONGEST_GREETING:
            heapq.heappush(dials, (now + 0.3, number))
            continue
        last = max(last, now + pause_of(paces.take("many", now, price + 1.0)))
        assert paces.wait("another", now) == 0.0
    assert 1000 * price / 240.0 < last < 30.0


def free_tcp() -> str:
    return f"tcp://127.0.0.1:{free_base_port()}"


def answers_to(
    endpoint: str, limits: DoorLimits, messages: int, work: bytes = b"work", said: bytes = b"talk"
) -> tuple[int, list[str]]:
    """Return how many of so many messages are answered, and why the door cut connections. `work` is not
    charged."""
    ended: list[str] = []

    def talk() -> int:
        with RawPeer(endpoint) as peer:
            peer.send_bytes(frame(said) * messages)
            answered = 0
            try:
                for _ in range(messages):
                    peer.receive_frame()
                    answered += 1
            except Cut:
                pass
            return answered

    async def main() -> int:
        door = Door([endpoint], limits)

        def on_message(peer: bytes, frames: list[memoryview]) -> None:
            if bytes(frames[0]) != work:
                door.charge(peer, is_ping=bytes(frames[0]) == b"ping")
            door.send(peer, frames)

        door.start(on_message, lambda _peer, why: ended.extend([why] if why else []))
        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.to_thread(talk)
        finally:
            door.close()

    return asyncio.run(main()), ended


def test_who_talks_without_end_is_cut() -> None:
    answered, ended = answers_to(free_tcp(), DoorLimits(talk=SLOW), 100)
    assert answered <= 4
    assert "it sent more messages than" in ended[0]


def test_some_pings_are_free() -> None:
    limits = DoorLimits(talk=SLOW, crumbs=PaceLimits(rate=0.001, burst=10.0))
    assert answers_to(free_tcp(), limits, 7, said=b"ping") == (7, [])
    answered, ended = answers_to(free_tcp(), limits, 100, said=b"ping")
    assert answered <= 14
    assert "it sent more messages than" in ended[0]


def test_own_processes_on_a_local_socket_are_not_held_up(tmp_path: Path) -> None:
    assert answers_to(f"ipc://{tmp_path}/s", DoorLimits(talk=SLOW, talk_of_address=SLOW), 100) == (100, [])


def test_work_is_no_talk() -> None:
    assert answers_to(free_tcp(), DoorLimits(talk=SLOW), 100, work=b"talk")[0] == 100


def test_an_address_that_talks_too_much_is_read_slowly_and_not_cut() -> None:
    """A crowd behind one address may have honest members."""
    limits = DoorLimits(talk_of_address=PaceLimits(rate=50.0, burst=1))
    assert answers_to(free_tcp(), limits, 10) == (10, [])


async def greeted(door: Door, endpoint: str, count: int) -> list[bool]:
    """Return, for each of so many successive connections, whether the door greets it or turns it away."""

    def knock() -> bool:
        with dial(endpoint, PATIENCE) as sock, suppress(ConnectionError):
            return bool(sock.recv(1))
        return False

    door.start(lambda _: None, lambda _peer, _why: None)
    try:
        async with asyncio.timeout(PATIENCE):
            return [await asyncio.to_thread(knock) for _ in range(count)]
    finally:
        door.close()


def test_connections_beyond_the_pace_of_their_address_are_greeted_later() -> None:
    async def main() -> None:
        endpoint = free_tcp()
        door = Door([endpoint], DoorLimits(talk_of_address=PaceLimits(rate=100.0, burst=4.0)))
        began = time.monotonic()
        assert await greeted(door, endpoint, 6) == [True] * 6
        assert time.monotonic() - began >= (6 * CONNECTION_PRICE - 4.0) / 100.0 - LEAST_PAUSE

    asyncio.run(main())


def test_bytes_before_a_session_count() -> None:
    """Little of what a stranger sends is kept, but all of it has to be read."""

    async def main() -> bytes:
        endpoint = free_tcp()
        door = Door([endpoint], DoorLimits(talk_of_address=PaceLimits(rate=0.001, burst=5.0)))

        def knock() -> bytes:
            with RawPeer(endpoint, patience=PATIENCE) as peer:
                peer.send_frame(bytes(70_000))
                peer.receive_frame()
                with dial(endpoint, PATIENCE) as late:
                    return late.recv(1)

        def answer(peer: bytes, _frames: list[memoryview]) -> None:
            door.send(peer, [b"read"])

        door.start(answer, lambda _peer, _why: None)
        try:
            return await asyncio.to_thread(knock)
        finally:
            door.close()

    assert asyncio.run(main()) == b"", "the address is in debt, and the second connection turned away"


def test_a_crowd_that_sends_large_messages_without_work_is_heard_for_its_burst_and_then_cut() -> None:
    """However many connections an address has: with a clock that stands still, no debt is ever paid."""
    large = frame(bytes(64 * PRICED_BYTES))

    async def main() -> tuple[int, int]:
        endpoint, heard = free_tcp(), list[int]()
        door = Door([endpoint], DoorLimits(talk_of_address=PaceLimits(rate=240.0, burst=1200.0)), lambda: 7.0)

        def on_message(peer: bytes, frames: list[memoryview]) -> None:
            door.admit(peer)
            if len(frames[0]) > 1:
                heard.append(1)
                door.charge(peer, len(frames[0]))
            door.send(peer, [b"read"])

        def join(peer: RawPeer) -> None:
            peer.send_frame(b"j")
            peer.receive_frame()

        def pour(peer: RawPeer) -> None:
            with suppress(Cut):
                peer.send_bytes(large)
                peer.receive_frame()

        door.start(on_message, lambda _peer, _why: None)
        try:
            async with asyncio.timeout(PATIENCE):
                with ExitStack() as stack:
                    crowd = []
                    for _ in range(60):
                        crowd.append(stack.enter_context(await asyncio.to_thread(RawPeer, endpoint)))
                        await asyncio.to_thread(join, crowd[-1])
                    for peer in crowd:
                        await asyncio.to_thread(pour, peer)
            return len(heard), door.cut
        finally:
            door.close()

    heard, cut = asyncio.run(main())
    assert cut == heard - (1200 + 5 * 240 - 60 * 4) // 65, "those beyond the burst and five seconds of debt"


def test_an_address_deep_in_debt_is_turned_away_at_the_door() -> None:
    async def main() -> None:
        endpoint = free_tcp()
        door = Door([endpoint], DoorLimits(talk_of_address=SLOW))
        door._addresses.take("127.0.0.1", time.monotonic(), 100.0)
        assert await greeted(door, endpoint, 3) == [False] * 3
        assert (door.cut, len(door)) == (3, 0)

    asyncio.run(main())


def test_crumbs_beyond_those_of_an_honest_peer_count() -> None:
    """PINGs are sent one by one, each is answered, and so each is read separately."""

    async def main() -> None:
        endpoint = free_tcp()
        limits = DoorLimits(
            crumbs=PaceLimits(rate=0.001, burst=10.0),
            talk_of_address=PaceLimits(rate=0.001, burst=2 * CONNECTION_PRICE),
        )
        door = Door([endpoint], limits)
        door.start(lambda _peer, _frames: None, lambda _peer, _why: None)

        def debt() -> float:
            return door._addresses.wait("127.0.0.1", time.monotonic())

        def ping(peer: RawPeer) -> None:
            peer.send_command("PING", b"\0\0")
            assert peer.receive_frame()[1].startswith(b"\x04PONG")

        try:
            async with asyncio.timeout(PATIENCE):
                with await asyncio.to_thread(RawPeer, endpoint, patience=PATIENCE) as peer:
                    for _ in range(8):
                        await asyncio.to_thread(ping, peer)
                    left = door._addresses._paces["127.0.0.1"]._tokens
                    assert left == pytest.approx(CONNECTION_PRICE, abs=0.01), "a handshake and some PINGs"
                    for _ in range(100):
                        await asyncio.to_thread(peer.send_command, "PING", b"\0\0")
                        if debt():
                            break
                        await asyncio.to_thread(peer.receive_frame)
                    assert debt()
        finally:
            door.close()

    asyncio.run(main())


def test_who_has_hung_up_while_it_waited_is_neither_greeted_nor_heard() -> None:
    async def main() -> None:
        endpoint, heard, gone = free_tcp(), list[bytes](), list[str]()
        door = Door([endpoint])
        with dial(endpoint, PATIENCE) as sock:
            sock.sendall(GREETING + ready() + frame(b"too late"))
        door.start(lambda _peer, frames: heard.append(bytes(frames[0])), lambda _peer, why: gone.append(why))
        try:
            with await asyncio.to_thread(RawPeer, endpoint, patience=PATIENCE):
                assert (heard, gone, len(door)) == ([], [""], 1)
        finally:
            door.close()

    asyncio.run(main())


class Loop:
    """The part of an event loop that a listener uses; it does nothing by itself."""

    def __init__(self) -> None:
        self.read: Callable[[], None] | None = None
        self.later: list[float] = []

    def add_reader(self, _fd: int, call: Callable[..., None], *values: object) -> None:
        self.read = lambda: call(*values)

    def remove_reader(self, _fd: int) -> None:
        self.read = None

    def call_later(self, seconds: float, *_: object) -> None:
        self.later.append(seconds)


def test_after_turning_many_away_a_listener_accepts_none_for_a_while_even_if_others_stay() -> None:
    endpoint, taken = free_tcp(), list[socket.socket]()
    listener, loop = Listener([endpoint], time.monotonic), Loop()

    def take(sock: socket.socket, _address: str) -> bool:
        taken.append(sock)
        return len(taken) % 2 == 0

    listener.start(cast("asyncio.AbstractEventLoop", loop), take)
    with ExitStack() as stack:
        for _ in range(3 * CROWD):
            stack.enter_context(dial(endpoint, PATIENCE))
        while loop.read is not None:
            loop.read()
        for sock in taken:
            sock.close()
    assert (len(taken), loop.later) == (2 * CROWD - 1, [CROWD_PAUSE])
    for sock in listener._sockets:
        sock.close()


def test_a_crowd_that_is_turned_away_waits_in_the_kernel_and_holds_up_nobody_for_long() -> None:
    """There are more connections at once than one turn of the loop accepts, and behind them one from
    elsewhere."""

    async def main() -> None:
        endpoint = free_tcp()
        door = Door([endpoint], DoorLimits(talk_of_address=PaceLimits(rate=0.1, burst=CONNECTION_PRICE)))
        door._addresses.take("127.0.0.1", time.monotonic(), 100.0)
        crowd = [await asyncio.to_thread(dial, endpoint, PATIENCE) for _ in range(3 * CROWD)]
        door.start(lambda _peer, _frames: None, lambda _peer, _why: None)
        try:
            with await asyncio.to_thread(RawPeer, endpoint, patience=PATIENCE, source="127.0.1.77"):
                assert (door.cut, len(door)) == (3 * CROWD, 1)
        finally:
            door.close()
            for one in crowd:
                one.close()

    asyncio.run(main())
