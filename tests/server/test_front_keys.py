"""A front that needs keys: who joins as what, under which name, and until when."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from free_ports import free_base_port
from front_bench import GAME, Bench, Peer, inside, running_front
from router_socket import dealer

from azselfplay.diagnostics.doctor.probe import probe
from azselfplay.host.ports import Address
from azselfplay.link.keys import as_text, new_pair
from protocol.keys import DialKeys, KeyPair
from protocol.messages import (
    PROTOCOL_VERSION,
    Chunk,
    GameAck,
    GetStatus,
    Goodbye,
    Hello,
    Ping,
    PutGame,
    Refused,
    RelayAck,
    RelayGame,
    TrainerStatus,
    WeightsInfo,
    encode,
)
from server.front import FrontSettings
from server.keys import Allowed, main

CLIENT, TRAINER = new_pair(), new_pair()


class Keyed(Peer):
    """A peer over TCP with a key."""

    def __init__(self, bench: Bench, endpoint: str, keys: DialKeys) -> None:
        super().__init__(bench, socket=dealer(bench.context, endpoint, keys=keys))

    async def up(self) -> Keyed:
        assert self.channel.send([encode(Ping())])
        await self.receive(Goodbye)
        return self


class Server:
    """The locked server that a scenario works with."""

    def __init__(self, bench: Bench, folder: Path, endpoints: dict[str, str]) -> None:
        self.bench, self.folder, self.endpoints = bench, folder, endpoints
        self.public = Allowed(folder).pair.public

    async def peer(self, pair: KeyPair, port: str = "bulk") -> Keyed:
        return await Keyed(self.bench, self.endpoints[port], DialKeys(self.public, pair)).up()

    def azserver(self, *words: str) -> None:
        main([words[0], "--keys", str(self.folder), *words[1:]])


@asynccontextmanager
async def locked_front(tmp_path: Path) -> AsyncIterator[Server]:
    """Run a front that needs keys."""
    folder = tmp_path / "keys"
    main(["keygen", "--keys", str(folder)])
    for role, name, pair in (("client", "lab-3", CLIENT), ("trainer", "gpu", TRAINER)):
        main(["allow", "--keys", str(folder), role, name, as_text(pair.public)])
    base = free_base_port()
    ports = [f"tcp://127.0.0.1:{base + offset}" for offset in (0, 1)]

    def locked(usual: FrontSettings) -> FrontSettings:
        leaves, bulk = (*usual.leaves, ports[0]), (*usual.bulk, ports[1])
        return replace(usual, leaves=leaves, bulk=bulk, allowed=Allowed(folder))

    async with running_front(tmp_path, settings=locked) as bench:
        yield Server(bench, folder, {"leaves": ports[0], "bulk": ports[1]})


beside_locked_front = inside(locked_front)


@beside_locked_front
async def test_a_key_joins_as_what_it_was_allowed_for_and_nothing_else(server: Server) -> None:
    await server.bench.evaluator()
    client, trainer = await server.peer(CLIENT), await server.peer(TRAINER)
    for peer, role in ((client, "trainer"), (client, "worker"), (trainer, "client")):
        peer.send(Hello(PROTOCOL_VERSION, role, "test"))
        goodbye, _ = await peer.receive(Goodbye)
        assert goodbye.code == "role_not_allowed"
        assert goodbye.retry_after == 0
    assert server.bench.front.bulk.trainer is None
    await client.join("client")
    await trainer.join("trainer")
    own = Peer(server.bench, "bulk")  # azserver's own workers need no key
    await own.join("worker")


async def test_the_servers_own_doctor_leaves_no_warning(tmp_path, caplog) -> None:
    """Earlier, each check left a warning about a refused client."""
    async with locked_front(tmp_path) as server:
        await server.bench.evaluator()
        keys = DialKeys(server.public, Allowed(server.folder).pair)
        address = Address("127.0.0.1", int(server.endpoints["leaves"].rpartition(":")[2]), keys)
        assert (await asyncio.to_thread(probe, address)).figures is not None
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


@beside_locked_front
async def test_a_clients_key_can_send_nothing_that_is_the_trainers(server: Server) -> None:
    await server.bench.evaluator()
    client, trainer = await server.peer(CLIENT), await server.peer(TRAINER)
    await trainer.join("trainer")
    info = WeightsInfo(9, 0, b"x" * 32, 10, GAME.name)
    ack = RelayAck([(b"peer", GameAck(b"g" * 16, "stored"))])
    sent = ((info,), (Chunk(b"x" * 32, 0), b"weights"), (ack,), (TrainerStatus({"games": 9}),))
    for role in ("client", "watcher"):
        await client.join(role)
        for message, *frames in sent:
            client.send(message, *frames)
            assert (await client.receive(Refused))[0].code == "role_not_allowed"
    figures = await client.status()
    assert (figures["weights_version"], figures["games_acked"], figures["trainer"]) == (0, 0, {})


@beside_locked_front
async def test_a_session_has_the_name_of_its_key_and_no_figure_has_a_key(server: Server) -> None:
    await server.bench.evaluator()
    client, again = await server.peer(CLIENT), await server.peer(CLIENT, "leaves")
    await client.join("client")
    await again.join("client")
    figures = await client.status()
    assert figures["keys"] == {"lab-3": 2}
    text = json.dumps(figures) + repr(server.bench.front.settings)
    assert as_text(CLIENT.public) not in text
    assert repr(server.bench.front.settings.allowed.pair.secret) not in text  # type: ignore[union-attr]


@beside_locked_front
async def test_the_trainer_hears_whose_key_a_game_came_with(server: Server) -> None:
    """This does not depend on the name that the client gives; azserver's own workers have no key."""
    await server.bench.evaluator()
    client, trainer = await server.peer(CLIENT), await server.peer(TRAINER)
    worker = Peer(server.bench, "bulk")
    await trainer.join("trainer")
    await client.join("client", "gpu")
    await worker.join("worker", "lab-3")
    for peer, uid in ((client, b"c"), (worker, b"w")):
        peer.send(PutGame(uid * 16, b"s" * 32), b"record")
        game, _ = await trainer.receive(RelayGame)
        assert (game.uid, game.key) == (uid * 16, {b"c": "lab-3", b"w": ""}[uid])


async def test_a_key_that_fills_the_server_with_sessions_keeps_nobody_else_out(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("server.front.MAX_SESSIONS", 4)
    async with locked_front(tmp_path) as server:
        crowd = [await server.peer(CLIENT) for _ in range(5)]
        for peer in crowd[:4]:
            await peer.join("watcher")
        crowd[4].send(Hello(PROTOCOL_VERSION, "watcher", "test"))
        assert (await crowd[4].receive(Goodbye))[0].code == "busy"
        trainer, own = await server.peer(TRAINER), Peer(server.bench, "bulk")
        await trainer.join("trainer")
        await own.join("watcher")
        assert (await own.status())["keys"] == {"gpu": 1, "lab-3": 2}
        crowd[3].send(GetStatus())
        assert (await crowd[3].receive(Goodbye))[0].code == "hello_required"


@beside_locked_front
async def test_a_revoked_key_loses_its_sessions_at_once_and_the_others_stay(server: Server) -> None:
    await server.bench.evaluator()
    client, leaves = await server.peer(CLIENT), await server.peer(CLIENT, "leaves")
    trainer = await server.peer(TRAINER)
    await client.join("client")
    await leaves.join("client")
    await trainer.join("trainer")
    door = server.bench.front.bulk.port.door
    server.azserver("revoke", "lab-3")
    ended = server.bench.front.figures.disconnects
    async with asyncio.timeout(60):
        while ended["ended"] < 2:  # noqa: ASYNC110 (the front looks every second)
            await asyncio.sleep(0)
    assert (await trainer.status())["keys"] == {"gpu": 1}
    assert {one.name for one in map(door.owner, door._connections) if one} == {"gpu"}


@beside_locked_front
async def test_a_list_that_cannot_be_read_ends_no_session(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await server.bench.evaluator()
    client = await server.peer(CLIENT)
    await client.join("client")
    (server.folder / "allowed.toml").write_text("[")
    front = server.bench.front
    async with asyncio.timeout(60):
        while "nobody new may join" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert front.metrics()["allowed_keys"] == 0
    cut = front.bulk.port.door.cut
    newcomer = Keyed(server.bench, server.endpoints["bulk"], DialKeys(server.public, TRAINER))
    newcomer.channel.send([encode(Ping())])
    async with asyncio.timeout(60):
        while front.bulk.port.door.cut == cut:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert newcomer.inbox.empty()
    assert (await client.status())["keys"] == {"lab-3": 1}
