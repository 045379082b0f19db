"""A peer whose messages bring no work is read more slowly, and an address has only so many connections."""

import asyncio
import heapq
import socket
import time
from pathlib import Path

import pytest
from free_ports import free_base_port
from raw_zmtp import Cut, RawPeer, dial, frame

from azselfplay.host.ports import ACCEPTS
from azselfplay.link.door import Door
from azselfplay.link.door_connection import DoorLimits
from azselfplay.link.rate_limit import SMALL_READ, RateLimit, TokenBucket

PATIENCE = 60.0
SLOW = RateLimit(rate=0.001, burst=3)
"""At this rate, messages beyond the burst would have to wait for longer than the door has patience."""


def test_a_burst_is_taken_at_once_and_then_so_many_a_second() -> None:
    bucket = TokenBucket(RateLimit(rate=10.0, burst=3.0), now=0.0)
    assert [bucket.take(0.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert not bucket.is_rested(0.4)
    assert bucket.take(0.3) == 0.0
    assert [bucket.is_rested(now) for now in (0.59, 0.61)] == [False, True]
    rested = [bucket.take(9.0) for _ in range(4)]
    assert rested == pytest.approx([0, 0, 0, 0.1]), "rest earns no more than a burst"


async def test_addresses_are_forgotten_once_they_may_dial_a_burst_again() -> None:
    door, limit = Door([free_tcp()], clock=lambda: 0.5), RateLimit(rate=10.0, burst=3.0)
    door._dials = {"rested": TokenBucket(limit, 0.0), "tired": TokenBucket(limit, 0.0)}
    door._dials["rested"].take(0.0, 5.0)
    door._dials["tired"].take(0.0, 6.0)
    door.start(lambda _peer, _frames: None, lambda _peer, _why: None)
    door._tick()
    assert list(door._dials) == ["tired"]
    door.close()


def test_a_thousand_workers_behind_one_address_are_all_there_within_forty_seconds() -> None:
    """Each connects again 0.3 s after it was turned away, as libzmq does."""
    bucket = TokenBucket(DoorLimits().dials_of_address, 0.0)
    dials, now = [(number / 1000, number) for number in range(1000)], 0.0
    while dials:
        now, number = heapq.heappop(dials)
        if bucket.wait(now):
            heapq.heappush(dials, (now + 0.3, number))
        else:
            bucket.take(now)
    assert 15.0 < now < 40.0


def free_tcp() -> str:
    return f"tcp://127.0.0.1:{free_base_port()}"


async def answers_to(endpoint: str, limits: DoorLimits, messages: int) -> tuple[int, list[str]]:
    """Talk so many times. Return how many messages are answered, and why the door cut connections."""
    ended: list[str] = []

    def talk() -> int:
        with RawPeer(endpoint) as peer:
            peer.send_bytes(frame(b"talk") * messages)
            answered = 0
            try:
                for _ in range(messages):
                    peer.receive_frame()
                    answered += 1
            except Cut:
                pass
            return answered

    door = Door([endpoint], limits)

    def on_message(peer: bytes, frames: list[memoryview]) -> None:
        door.charge(peer)
        door.send(peer, frames)

    door.start(on_message, lambda _peer, why: ended.extend([why] if why else []))
    try:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.to_thread(talk), ended
    finally:
        door.close()


async def test_who_talks_without_end_is_cut() -> None:
    answered, ended = await answers_to(free_tcp(), DoorLimits(talk=SLOW), 100)
    assert answered <= 4
    assert "it sent more messages than" in ended[0]


async def test_own_processes_on_a_local_socket_are_not_held_up(tmp_path: Path) -> None:
    limits = DoorLimits(talk=SLOW, dials_of_address=SLOW)
    assert await answers_to(f"ipc://{tmp_path}/s", limits, 100) == (100, [])


async def test_who_talks_a_little_too_much_is_read_slowly_and_not_cut() -> None:
    began = time.monotonic()
    assert await answers_to(free_tcp(), DoorLimits(talk=RateLimit(rate=50.0, burst=1)), 20) == (20, [])
    assert time.monotonic() - began > 15 / 50


@pytest.mark.parametrize(
    "limits", [DoorLimits(dials_of_address=SLOW), DoorLimits(connections_of_address=4)], ids=["new", "open"]
)
async def test_connections_beyond_those_of_their_address_are_turned_away_and_others_come_in(
    limits: DoorLimits,
) -> None:
    """There are more connections than one turn of the loop accepts."""
    endpoint, crowd = free_tcp(), list[socket.socket]()
    door = Door([endpoint], limits)
    try:
        crowd += [await asyncio.to_thread(dial, endpoint, PATIENCE) for _ in range(2 * ACCEPTS)]
        door.start(lambda _peer, _frames: None, lambda _peer, _why: None)
        with await asyncio.to_thread(RawPeer, endpoint, patience=PATIENCE, source="127.0.1.77"):
            assert (door.cut, len(door)) == (2 * ACCEPTS - 4, 5)
    finally:
        door.close()
        for one in crowd:
            one.close()


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("size", [1, SMALL_READ, 70_000])
async def test_reads_that_complete_no_message_are_charged_if_small_or_of_a_stranger(
    joined: bool, size: int
) -> None:
    """One message comes in pieces of `size` bytes, each of which is read alone."""
    endpoint, heard = free_tcp(), asyncio.Event()
    door = Door([endpoint], clock=lambda: 7.0)

    def on_message(peer: bytes, _frames: list[memoryview]) -> None:
        if joined:
            door.admit(peer)
        heard.set()

    door.start(on_message, lambda _peer, _why: None)
    try:
        async with asyncio.timeout(PATIENCE):
            with await asyncio.to_thread(RawPeer, endpoint, patience=PATIENCE) as peer:
                await asyncio.to_thread(peer.send_frame, b"join")
                await heard.wait()
                (connection,) = door._connections.values()
                connection.talk = TokenBucket(DoorLimits().talk, 7.0)
                for _ in range(3):
                    connection.last_received = 0.0
                    await asyncio.to_thread(peer.send_bytes, frame(bytes(5 * size), 1)[:size])
                    while not connection.last_received:  # noqa: ASYNC110
                        await asyncio.sleep(0)
                charged = DoorLimits().talk.burst - connection.talk._left(7.0)
    finally:
        door.close()
    assert charged == 0.0 if joined and size >= SMALL_READ else charged >= 3.0
