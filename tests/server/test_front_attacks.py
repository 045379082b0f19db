"""Attacks by raw ZMTP peers on a front: it survives, serves the others, and holds little memory."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from front_bench import PATIENCE, Bench, Peer, Play, Worker, publish
from raw_zmtp import (
    Cut,
    RawPeer,
    automatic_identities,
    chosen_identities,
    frame,
    hello,
    unfinished_multipart,
    unread_chunks,
    unseeded_identity,
)

from protocol.messages import CHUNK, MAX_FRAME, PROTOCOL_VERSION, GameAck, PutGame, RelayAck, RelayGame

MEGABYTE = 1024 * 1024
LITTLE = 64 * MEGABYTE
"""Most memory that an attack of hundreds of megabytes may leave in the front."""


def resident() -> int:
    """Return the bytes of memory of this process, which contains front and attackers."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def numbers_after(peer: bytes, count: int) -> list[bytes]:
    """Return the ids that follow a known one, in the same form."""
    first = int.from_bytes(peer, "big")
    return [(first + i).to_bytes(len(peer), "big") for i in range(1, count + 1)]


@pytest.mark.parametrize("port", ["leaves", "bulk"])
def test_peers_that_choose_their_ids_change_nothing(play: Play, port: str) -> None:
    """This covers the ids that libzmq would give next, and those that follow one in a RELAY_GAME."""

    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        worker, trainer = Peer(bench, "bulk"), Peer(bench, "bulk")
        await worker.join("worker")
        await trainer.join("trainer")
        worker.send(PutGame(b"w" * 16, b"s" * 32), b"record")
        game = (await trainer.receive(RelayGame))[0]
        ids = [game.peer, *numbers_after(game.peer, 60)]
        ids += automatic_identities(unseeded_identity(), 60)

        def attack() -> list[RawPeer]:
            return list(chosen_identities(bench.endpoints[port], ids))

        with ExitStack() as held:
            for peer in await asyncio.to_thread(attack):
                held.enter_context(peer)
            for seed in range(20):
                newcomer = Worker(bench, seed) if port == "leaves" else Peer(bench, port)
                await newcomer.join("client")
            trainer.send(RelayAck([(game.peer, GameAck(game.uid, "stored"))]))
            assert (await worker.receive(GameAck))[0].status == "stored"

    play(scenario)


@pytest.mark.parametrize("joined", [False, True], ids=["stranger", "watcher"])
@pytest.mark.parametrize("port", ["leaves", "bulk"])
def test_unfinished_messages_are_not_held(play: Play, port: str, joined: bool) -> None:
    async def scenario(bench: Bench) -> None:
        before = resident()

        def attack() -> int:
            with RawPeer(bench.endpoints[port]) as peer:
                if joined:
                    assert peer.ask(hello(PROTOCOL_VERSION, "watcher"))["type"] == "welcome"
                sent = unfinished_multipart(peer, 200 * MEGABYTE)
                nonlocal after
                after = resident()
                return sent

        after = 0
        await asyncio.to_thread(attack)
        assert after - before < LITTLE
        honest = Peer(bench, port)
        await honest.join("watcher")

    play(scenario)


def test_large_frames_of_a_stranger_are_answered_and_not_held(play: Play) -> None:
    """A worker whose session is over is told so, however much it sends."""

    async def scenario(bench: Bench) -> None:
        def attack() -> dict[str, object]:
            with RawPeer(bench.endpoints["leaves"]) as peer:
                peer.send_frame(b"\x81\xa4type\xa8evaluate", more=True)
                peer.send_bytes(frame(bytes(4 * MEGABYTE), 1)[: 2 * MEGABYTE])
                time.sleep(0)
                assert bench.front.leaf.port.door.held < 8192
                peer.send_bytes(bytes(2 * MEGABYTE + 9) + frame(b""))
                return peer.receive()[0]

        assert (await asyncio.to_thread(attack))["code"] == "hello_required"

    play(scenario)


def test_chunks_that_nobody_reads_are_held_up_to_a_limit(play: Play) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        trainer, honest = Peer(bench, "bulk"), Peer(bench, "bulk")
        await trainer.join("trainer")
        await honest.join("watcher")
        data = bytes(2 * CHUNK)
        info = await publish(trainer, data, 1)
        before = resident()

        def attack(peer: RawPeer) -> None:
            assert peer.ask(hello(PROTOCOL_VERSION, "watcher"))["type"] == "welcome"
            for _ in range(12):
                unread_chunks(peer, info.sha256, 8)
                time.sleep(0.02)

        with ExitStack() as held:
            raw = [
                held.enter_context(await asyncio.to_thread(RawPeer, bench.endpoints["bulk"]))
                for _ in range(8)
            ]
            await asyncio.gather(*(asyncio.to_thread(attack, peer) for peer in raw))
            await honest.status()
            assert resident() - before < LITTLE
        async with asyncio.timeout(PATIENCE):
            while len(bench.front.bulk.port.door) > 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert bench.front.bulk.port.door.held == 0

    play(scenario)


def test_a_peer_that_hangs_up_has_left(play: Play) -> None:
    """Its credits are free at once, not only when its lease ends."""

    async def scenario(bench: Bench) -> None:
        await bench.evaluator()

        def join() -> None:
            with RawPeer(bench.endpoints["leaves"]) as peer:
                peer.ask(hello(PROTOCOL_VERSION))
                assert bench.front.leaf.credits.granted > 0

        await asyncio.to_thread(join)
        async with asyncio.timeout(PATIENCE):
            while bench.front.leaf.credits.granted:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert len(bench.front.leaf.port.sessions) == 0

    play(scenario)


def test_a_frame_beyond_its_limit_ends_the_connection(play: Play) -> None:
    async def scenario(bench: Bench) -> None:
        def attack() -> None:
            with RawPeer(bench.endpoints["bulk"]) as peer:
                peer.ask(hello(PROTOCOL_VERSION, "watcher"))
                peer.send_bytes(b"\x03" + (MAX_FRAME + 1).to_bytes(8, "big"))
                with pytest.raises(Cut):
                    peer.receive()

        await asyncio.to_thread(attack)

    play(scenario)
