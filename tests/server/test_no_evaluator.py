"""A front without evaluators: the network is part of the players' own search, or clients bring their own."""

import asyncio
import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from front_bench import PATIENCE, Bench, Peer, inside, publish, random_leaves, running_front
from safetensors.numpy import load, save

from azselfplay.diagnostics.doctor.findings import Level
from azselfplay.diagnostics.doctor.service import figure_findings
from azselfplay.games import get_game
from azselfplay.host.aio import first_cause
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.folders import own_folder
from net.architectures.registry import named
from net.create import create
from net.weights import WeightsMeta, describe
from protocol.errors import Code
from protocol.messages import PROTOCOL_VERSION, Evaluate, Goodbye, Hello, Ping, Pong, Refused, WeightsInfo
from server.config import ServerConfig
from server.evaluator_pool import NoEvaluators
from server.front import FrontSettings

CHESS = get_game("chess")


@cache
def untrained() -> bytes:
    """Return an untrained sparse network for chess."""
    with own_folder() as folder:
        create("chess", 1, "sparse", 0, folder / "w")
        return (folder / "w").read_bytes()


def with_sparse(usual: FrontSettings) -> FrontSettings:
    return dataclasses.replace(usual, game=CHESS, network="sparse", devices=0)


beside_players_that_evaluate = inside(
    lambda folder: running_front(folder, settings=with_sparse, weights=untrained())
)


async def joined(bench: Bench, port: str, role: str) -> Peer:
    """Return a peer with a session; a player waits until the first weights are checked."""
    if role != "trainer":
        async with asyncio.timeout(PATIENCE):
            await bench.front.one_up.wait()
    peer = Peer(bench, port)
    peer.welcome = await peer.join(role)  # type: ignore[attr-defined]
    return peer


@beside_players_that_evaluate
async def test_published_weights_are_current_once_they_are_checked(bench: Bench) -> None:
    player, trainer = await joined(bench, "bulk", "worker"), await joined(bench, "bulk", "trainer")
    assert player.welcome.network == "sparse"  # type: ignore[attr-defined]
    assert player.welcome.games_in_flight == 0  # type: ignore[attr-defined]
    assert bench.front.all_up.is_set()
    info = await publish(trainer, untrained(), 1, "chess")
    assert (await player.receive(WeightsInfo))[0] == info
    told = await player.status()
    assert (told["weights_version"], told["evaluators"], told["players_evaluate"]) == (1, 0, True)
    assert told["sessions"] == {"workers": 1, "clients": 0, "trainer": 1}
    assert bench.front.not_ready(0.0) == ""


@beside_players_that_evaluate
async def test_first_weights_do_not_replace_newer_ones_that_were_checked_before_them(
    bench: Bench, monkeypatch
) -> None:
    """Reading the first file may hang while a trainer publishes."""
    pool, first, read_on = bench.front.pool, bench.store.current, asyncio.Event()
    assert isinstance(pool, NoEvaluators)
    assert first is not None

    async def objection(_info: WeightsInfo) -> str:
        await read_on.wait()
        return ""

    monkeypatch.setattr(pool, "objection", objection)
    pool.desired, pool.is_checked = first, False
    checking = asyncio.create_task(pool.begin())
    await asyncio.sleep(0)
    newer = bench.store.add(untrained(), first.version + 1, 1, "sparse")
    pool.load(newer)
    read_on.set()
    await checking
    assert (pool.desired, bench.store.current) == (newer, newer)


async def refusal(trainer: Peer, data: bytes, version: int, game: str = "chess") -> Refused:
    """Offer weights; return the answer that is no request for more of them."""
    task = asyncio.ensure_future(publish(trainer, data, version, game))
    with pytest.raises(AssertionError) as caught:
        await task
    refused = caught.value.args[0]
    return refused if isinstance(refused, Refused) else pytest.fail(str(refused))


async def test_first_weights_that_nobody_can_use_end_the_server(tmp_path: Path) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with running_front(tmp_path, settings=with_sparse, weights=b"untrained"):
            await asyncio.sleep(PATIENCE)
    cause = first_cause(caught.value)
    assert isinstance(cause, Fatal)
    assert cause.code == Exit.BAD_DATA
    assert "cannot be used" in str(cause)


@beside_players_that_evaluate
async def test_leaves_are_refused_in_a_sentence_and_for_good(bench: Bench) -> None:
    worker = await joined(bench, "leaves", "client")
    worker.send(Evaluate(4, 1), *random_leaves(np.random.default_rng(0), 1))
    refused = (await worker.receive(Refused))[0]
    assert (refused.code, refused.request, refused.retry_after) == (Code.NO_EVALUATOR, 4, 0)
    assert "part of the players' own search" in refused.reason


@beside_players_that_evaluate
async def test_what_players_evaluate_is_counted_from_their_pings(bench: Bench) -> None:
    """A trainer's or a watcher's number does not count, nor does one that is not a number."""
    worker, client = await joined(bench, "bulk", "worker"), await joined(bench, "bulk", "client")
    watcher = await joined(bench, "bulk", "watcher")
    for peer, number in ((worker, 1), (client, 2), (worker, 3), (watcher, 9)):
        peer.send(Ping(number))
        await peer.receive(Pong)
    assert (await watcher.status())["evals"] == 5
    assert bench.front.metrics()["by_evaluator"] == {"players": 5}
    errors = (await watcher.status())["protocol_errors"]
    client.channel.send([b"\x82\xa4type\xa4ping\xabevaluations\xa3two"])
    await client.receive(Pong)
    told = await watcher.status()
    assert (told["evals"], told["protocol_errors"]) == (5, errors + 1)


HUB_GAME = get_game("tic_tac_toe")


def hub(usual: FrontSettings) -> FrontSettings:
    return dataclasses.replace(usual, game=HUB_GAME, history=1, network="1x16", devices=0)


async def test_a_hub_hands_out_weights_of_any_network_once_they_are_stored(tmp_path: Path) -> None:
    """It evaluates nothing and says so to whoever asks for it; it finds broken weights without torch."""
    create("tic_tac_toe", 1, "1x16", 0, tmp_path / "w")
    weights = (tmp_path / "w").read_bytes()
    tensors = load(weights)
    # By name: safetensors lists the tensors in an order of its own, and a counter of batches takes no NaN.
    tensors["value.out.weight"] = np.full_like(tensors["value.out.weight"], np.nan)
    broken = save(tensors, describe(WeightsMeta("tic_tac_toe", 1, named("1x16"))))
    async with running_front(tmp_path, settings=hub, weights=weights) as bench:
        player, trainer = await joined(bench, "bulk", "client"), await joined(bench, "bulk", "trainer")
        assert player.welcome.network == "1x16"  # type: ignore[attr-defined]
        info = await publish(trainer, weights + b"", 1, "tic_tac_toe")
        assert (await player.receive(WeightsInfo))[0] == info
        assert "not finite" in (await refusal(trainer, broken, 2, "tic_tac_toe")).reason
        told = await player.status()
        assert (told["weights_version"], told["evaluators"], told["players_evaluate"]) == (1, 0, True)
        assert told["sessions"] == {"workers": 0, "clients": 1, "trainer": 1}
        assert [one.level for one in figure_findings(told)] == [Level.OK] * 3
        assert bench.front.not_ready(0.0) == ""
        other = Peer(bench, "leaves")
        other.send(Hello(PROTOCOL_VERSION, "client", "me", "test"))
        goodbye = (await other.receive(Goodbye))[0]
        assert (goodbye.code, goodbye.retry_after) == (Code.NO_EVALUATOR, 0)
        assert "evaluator of your own" in goodbye.reason


def test_a_game_without_features_is_refused() -> None:
    with pytest.raises(Fatal, match=r"--net: go has no sparse features.* it has the networks tiny") as caught:
        ServerConfig(net="sparse", game="go").check()
    assert caught.value.code == Exit.CONFIG
