"""Attacks by raw ZMTP peers on a front: it survives, serves the others, and holds little memory."""

import asyncio

import numpy as np
import pytest
from front_bench import PATIENCE, Bench, beside_front, random_leaves
from raw_zmtp import Cut, RawPeer, hello

from azselfplay.games import get_game
from protocol.messages import (
    MAX_FRAME,
    MAX_HEADER,
    MAX_ROWS,
    PROTOCOL_VERSION,
    Chunk,
    Evaluate,
    GameAck,
    PutGame,
    RelayAck,
    encode,
)
from server.leaves import message_limits


@pytest.mark.parametrize("game", ["tic_tac_toe", "connect_four", "chess", "go_9x9"])
def test_the_largest_request_that_a_game_allows_fits_and_a_much_larger_frame_is_cut_off_unread(
    game: str,
) -> None:
    spec = get_game(game)
    words, limits = spec.feature_words(spec.history), message_limits(spec, spec.history)
    largest = [8 * words * MAX_ROWS, 2 * MAX_ROWS, (spec.mask_bytes or 2 * spec.max_legal) * MAX_ROWS]
    assert max(largest) + MAX_HEADER == limits.frame
    assert sum(largest) + MAX_HEADER < limits.message <= sum(largest) + 3 * MAX_HEADER


@beside_front
async def test_the_leaves_port_cuts_a_frame_that_no_row_of_its_game_needs(bench: Bench) -> None:
    """Only the frame's header is sent: nobody waits for the rest."""

    def attack() -> None:
        with RawPeer(bench.endpoints["leaves"]) as peer:
            peer.ask(hello(PROTOCOL_VERSION, "watcher"))
            peer.send_bytes(b"\x03" + MAX_FRAME.to_bytes(8, "big"))
            with pytest.raises(Cut):
                peer.receive()

    await asyncio.to_thread(attack)


LARGE, ROWS = bytes(150_000), 1000
LEAVES = [part.tobytes() for part in random_leaves(np.random.default_rng(1), ROWS)]
EVALUATE, GAME = encode(Evaluate(7, ROWS)), encode(PutGame(b"g" * 16, b"s" * 32))
WASTED = {
    "a frame of the wrong size": ("leaves", "client", [EVALUATE, LARGE, *LEAVES[1:]]),
    "a frame too many": ("leaves", "client", [EVALUATE, *LEAVES, LARGE]),
    "beyond the credits": ("leaves", "client", [EVALUATE, *LEAVES]),
    "a header that cannot be read": ("leaves", "client", [b"\x81\xa4type\xa8evaluate", *LEAVES]),
    "another role's": ("leaves", "watcher", [EVALUATE, *LEAVES]),
    "a game without a trainer": ("bulk", "client", [GAME, LARGE]),
    "a game's unreadable header": ("bulk", "client", [b"\x81\xa4type\xa8put_game", LARGE]),
    "weights that nobody offered": ("bulk", "trainer", [encode(Chunk(b"s" * 32, 0)), LARGE]),
    "an answer to no game": (
        "bulk",
        "trainer",
        [encode(RelayAck([(b"p" * 8, GameAck(b"g" * 16, "stored"))] * 900))],
    ),
    "a strange type": ("leaves", "client", [b"\x81\xa4type\xa3odd", LARGE]),
}
"""Port, role and frames of large messages that bring no work."""


@pytest.mark.parametrize("kind", WASTED)
@beside_front
async def test_who_sends_a_large_message_that_brings_no_work_is_charged_for_all_its_bytes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    await bench.evaluator()
    port, role, frames = WASTED[kind]
    peer = await bench.peer(port, role)
    charged: list[int] = []
    door = (bench.front.leaf if port == "leaves" else bench.front.bulk).port.door
    monkeypatch.setattr(door, "charge", lambda _peer, size=0: charged.append(size))
    assert peer.channel.send(frames)
    async with asyncio.timeout(PATIENCE):
        while not charged:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert sum(charged) == sum(map(len, frames))
