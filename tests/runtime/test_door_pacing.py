"""Who sends messages that bring no work is read more slowly, and cut when it does not stop."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from raw_zmtp import Cut, RawPeer, frame

from runtime.door import Door, DoorLimits
from runtime.pacing import Pace, PaceLimits

PATIENCE = 60.0
SLOW = PaceLimits(rate=0.001, burst=3)
"""What is beyond the burst would take longer to be forgotten than the door has patience for."""


def test_a_burst_is_taken_at_once_and_then_so_many_a_second() -> None:
    pace = Pace(PaceLimits(rate=10.0, burst=3.0), now=0.0)
    assert [pace.take(0.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert not pace.is_rested(0.4)
    assert pace.take(0.3) == 0.0
    assert [pace.is_rested(now) for now in (0.59, 0.61)] == [False, True]
    assert [pace.take(9.0) for _ in range(4)] == pytest.approx([0, 0, 0, 0.1]), (
        "rest earns no more than a burst"
    )


def free_tcp() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def answers_to(
    endpoint: str, limits: DoorLimits, messages: int, work: bytes = b"work"
) -> tuple[int, list[str]]:
    """How many of so many messages are answered, and why the door cut connections. `work` is not charged."""
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

    async def main() -> int:
        door = Door([endpoint], limits)

        def on_message(frames: list[memoryview]) -> None:
            if bytes(frames[1]) != work:
                door.charge(bytes(frames[0]))
            door.send(frames)

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


def test_own_processes_on_a_local_socket_are_not_held_up(tmp_path: Path) -> None:
    assert answers_to(f"ipc://{tmp_path}/s", DoorLimits(talk=SLOW, talk_of_address=SLOW), 100) == (100, [])


def test_work_is_no_talk() -> None:
    assert answers_to(free_tcp(), DoorLimits(talk=SLOW), 100, work=b"talk")[0] == 100


def test_an_address_that_talks_too_much_is_read_slowly_and_not_cut() -> None:
    """A crowd behind one address may have honest members."""
    limits = DoorLimits(talk_of_address=PaceLimits(rate=50.0, burst=1))
    assert answers_to(free_tcp(), limits, 10) == (10, [])
