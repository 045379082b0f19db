"""The gate as processes: candidates are stored, tested and promoted while the best weights play on."""

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain, repeat
from pathlib import Path

import msgspec
import pytest
from changed_settings import self_play, varied
from front_bench import GAME, Bench, EchoEvaluator, Peer, publish, running_front

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.reading import read_struct
from azselfplay.host.runs import RunFolder
from azselfplay.search.settings import resolve
from net.create import create
from protocol.messages import GetWeights, WeightsInfo
from protocol.settings import SelfPlaySettings, StartSettings
from server import gate as gatekeeper
from server.app import App
from server.config import GateConfig, ServerConfig
from server.gate import Gatekeeper, GateState, Play, gate_command, gate_settings, read_state
from server.weights import WeightsStore

SETTINGS = resolve(self_play(simulations=4, history=1), get_game("tic_tac_toe"))
WON = '{"wins":2,"draws":0,"losses":0,"games":2}'


def says(*lines: str) -> Callable[[Play], Sequence[str]]:
    """Return the command of a process that replaces a gate's."""
    script = f"print({chr(10).join(lines)!r})"
    return lambda _play: [sys.executable, "-c", script]


def ignore(info: WeightsInfo) -> None:
    """Load no weights: there are no evaluators."""


async def figures_when(trainer: Peer, wanted: Callable[[dict], bool]) -> dict:
    """Wait until the gate's figures fulfil `wanted`, and return them."""
    async with asyncio.timeout(240):
        while not wanted(found := (await trainer.status())["gate"]):  # noqa: ASYNC110 (it is far away)
            await asyncio.sleep(0.05)  # the gate's process needs the processor
    return found


@asynccontextmanager
async def beside_gate(
    folder: Path, command: Callable[[Play], Sequence[str]], share: float = 0.55
) -> AsyncIterator[tuple[Bench, EchoEvaluator, Peer]]:
    """Give a bench whose front has a gate, an evaluator and a trainer."""
    async with running_front(folder) as bench:
        front = bench.front
        gate = Gatekeeper(bench.store, share, command, front.pool.load, folder / "gate.log")
        front.bulk.weights.gate, front.pool.desired = gate, gate.state.best
        evaluator, trainer = await bench.evaluator(), Peer(bench, "bulk")
        await trainer.join("trainer")
        keeping = asyncio.create_task(gate.run())
        try:
            yield bench, evaluator, trainer
        finally:
            keeping.cancel()


def network(folder: Path, seed: int) -> bytes:
    file = folder / "net.safetensors"
    create("tic_tac_toe", 1, "tiny", seed, file)
    return file.read_bytes()


async def test_candidates_play_real_games_against_the_best_and_one_that_passes_takes_over(tmp_path) -> None:
    """Four games of tic-tac-toe are played, with a share that a single draw reaches."""
    candidate = network(tmp_path, 1)
    (tmp_path / "weights").mkdir()
    store = WeightsStore(tmp_path / "weights", GAME.name)
    first = store.add(network(tmp_path, 0), 1, 0, "tiny")
    config = ServerConfig(game=GAME.name, cpu_threads=1, gate=GateConfig(games=4, share=0.0))

    def command(play: Play) -> Sequence[str]:
        """The bench's first weights are not a network: a real one replaces them."""
        store.path(play.candidate).write_bytes(candidate)
        return gate_command(config, SETTINGS, "cpu", store)(Play(first, play.candidate))

    async with beside_gate(tmp_path, command, share=0.0) as (bench, evaluator, trainer):
        info = await publish(trainer, candidate, 2)
        found = await figures_when(trainer, lambda gate: gate["promoted"] + gate["rejected"] == 1)
        assert (found["best"], found["promoted"]) == (2, 1)
        assert 0 < found["last_score"] <= 1
        while bench.store.current != info:
            await trainer.status()
        assert evaluator.loaded[-1] == 2


async def test_weights_that_lose_never_play_and_the_trainer_hears_which_number_is_next(tmp_path) -> None:
    command = says('{"wins":1,"draws":0,"losses":1,"games":2}')
    async with beside_gate(tmp_path, command) as (bench, evaluator, trainer):
        info = await publish(trainer, b"candidate", 7)
        found = await figures_when(trainer, lambda gate: gate["rejected"] == 1)
        assert (found["best"], found["candidate"], found["last_score"]) == (0, None, 0.5)
        assert evaluator.loaded == [0]
        trainer.send(WeightsInfo(6, 0, b"x" * 32, 10, GAME.name))
        assert (await trainer.receive(WeightsInfo))[0] == info
        watcher = await bench.peer("bulk", "watcher")
        watcher.send(GetWeights())
        assert (await watcher.receive(WeightsInfo))[0].version == 0


async def test_a_gate_that_hangs_is_ended_and_played_again(tmp_path: Path, monkeypatch) -> None:
    """A real process that stops itself sends no report, and another talks nonsense; the next one decides, and
    its error output is kept."""
    monkeypatch.setattr(gatekeeper, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(gatekeeper, "SILENCE_SECONDS", 3.0)
    monkeypatch.setattr(gatekeeper, "ATTEMPTS", 10)  # a busy machine may not start Python in 3 s
    hangs = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    talks = f"import sys; print({WON!r}); print('a complaint', file=sys.stderr)"
    scripts = chain([hangs, "print('nonsense')"], repeat(talks))
    python = [sys.executable, "-S", "-c"]
    async with beside_gate(tmp_path, lambda _play: [*python, next(scripts)]) as (_, _, trainer):
        await publish(trainer, b"candidate", 1)
        await figures_when(trainer, lambda gate: gate["promoted"] == 1)
        assert next(scripts) == talks
        assert (tmp_path / "gate.log").read_bytes() == b"a complaint\n"


async def test_a_gate_that_cannot_be_started_or_written_down_does_not_end_the_server(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(gatekeeper, "RETRY_SECONDS", 0.0)

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gatekeeper, "write_atomically", full)

    def command(play: Play) -> Sequence[str]:
        raise OSError(12, "Cannot allocate memory")

    async with beside_gate(tmp_path, command) as (_, evaluator, trainer):
        await publish(trainer, b"candidate", 1)
        await figures_when(trainer, lambda gate: gate["candidate"] is None)
        assert evaluator.loaded == [0]


def test_a_promotion_that_no_evaluator_had_taken_yet_is_taken_up_after_a_restart(tmp_path: Path) -> None:
    """gate.json names the new best and current.json still the old one; the waiting candidate is next."""
    store = WeightsStore(tmp_path, GAME.name)
    old, best, waiting = (store.add(bytes([n]), n, 0, "tiny") for n in (1, 2, 3))
    store.adopt(old)
    state = GateState(best, old.sha256, waiting, candidate=best, waiting=waiting)
    (tmp_path / "gate.json").write_bytes(msgspec.json.encode(state))
    assert read_state(store) == state
    store.path(waiting).unlink()
    assert read_state(store) == msgspec.structs.replace(state, waiting=None)
    assert Gatekeeper(store, 0.55, says(WON), ignore, tmp_path / "log").state.best == best
    store.adopt(store.add(b"others", 9, 0, "tiny"))
    assert read_state(store) is None


async def test_a_gate_that_can_never_play_ends_the_server(tmp_path: Path) -> None:
    """With a wrong device, for example, no candidate can be tried; the gate's own words say why."""
    store = WeightsStore(tmp_path, GAME.name)
    store.add(b"best", 0, 0, "tiny")
    script = "import sys; print('gate: error: there is no device', file=sys.stderr); sys.exit(78)"
    keeper = Gatekeeper(store, 0.55, lambda _play: [sys.executable, "-c", script], ignore, tmp_path / "log")
    keeper.published(WeightsInfo(1, 0, bytes(32), 1, GAME.name))
    with pytest.raises(Fatal, match="gate: there is no device") as raised:
        await asyncio.wait_for(keeper.run(), 60)
    assert raised.value.code == Exit.CONFIG
    with pytest.raises(Fatal, match="--gate"):
        ServerConfig(gate=GateConfig(device="gpu")).check()


async def test_weights_published_before_the_gate_runs_play_one_match(tmp_path: Path) -> None:
    """The server serves trainers while it still compiles the rules."""
    store = WeightsStore(tmp_path, GAME.name)
    store.add(b"best", 0, 0, "tiny")
    matches = []

    def command(play: Play) -> Sequence[str]:
        matches.append(play.candidate.version)
        return says(WON)(play)

    loaded: asyncio.Queue[WeightsInfo] = asyncio.Queue()
    keeper = Gatekeeper(store, 0.55, command, loaded.put_nowait, tmp_path / "log")
    keeper.published(WeightsInfo(1, 0, bytes(32), 1, GAME.name))
    running = asyncio.create_task(keeper.run())
    await loaded.get()
    keeper.published(WeightsInfo(2, 0, bytes([2] * 32), 1, GAME.name))
    await loaded.get()
    assert running.cancel()
    assert [keeper.state.best.version, *matches] == [2, 1, 2]


def test_files_that_the_gate_needs_outlive_newer_ones(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, GAME.name, kept=1, past=0)
    best = store.add(b"best", 0, 0, "tiny")
    keeper = Gatekeeper(store, 0.55, says(WON), ignore, tmp_path / "log")
    infos = []
    for version in range(1, 5):
        data = bytes([version])
        infos.append(WeightsInfo(version, 0, hashlib.sha256(data).digest(), 1, GAME.name))
        store.path(infos[-1]).write_bytes(data)
        keeper.published(infos[-1])
    assert [store.has(info) for info in (best, *infos)] == [True, True, False, False, True]


async def test_the_mode_puts_the_gate_before_new_weights(tmp_path: Path) -> None:
    async with beside_gate(tmp_path, says(WON)) as (bench, _, _):
        gate = GateConfig(mode="alphago_zero", games=10, share=0.6, simulations=7)
        config = ServerConfig(game=GAME.name, gate=gate)
        keeper = App(config)._gate(bench.front, RunFolder(tmp_path, "run"), "cuda:1")
        assert bench.front.bulk.weights.gate is keeper
        words = list(keeper._command(Play(keeper.state.best, keeper.state.newest)))
        told = dict(zip(words[3::2], words[4::2], strict=True))
        assert (told["--games"], told["--share"], told["--device"]) == ("10", "0.6", "cuda:1")
        assert read_struct(told["--self-play"], SelfPlaySettings).search.simulations == 7
        assert told["--best"] == str(bench.store.path(keeper.state.best))


def test_a_gate_searches_as_self_play_does_but_without_chance() -> None:
    noisy = self_play(selection="gumbel", simulations=32, random_share=0.3, random_plies=4, history=1)
    found = gate_settings(resolve(noisy, GAME))
    assert (found.search.selection, found.search.simulations) == ("gumbel", 32)
    assert found.noise.root_noise == found.moves.temperature == found.opening.random_share == 0.0
    assert gate_settings(varied(noisy, generator="KRK", share=0.5)).start == StartSettings("", "", "KRK", 0.5)
    assert resolve(found, GAME).noise.root_noise == 0.0
    assert gate_settings(noisy, 100).search.simulations == 100
    found = gate_settings(varied(noisy, selection="puct", c_init=2.0, final_move="secure"))
    assert (found.search.selection, found.search.c_init, found.moves.final_move) == ("puct", 2.0, "secure")


async def test_who_joins_is_told_that_weights_stand_before_a_gate(tmp_path: Path) -> None:
    """Because of this, a trainer does not report games of older weights as a fault."""
    async with beside_gate(tmp_path, says(WON)) as (bench, _, _):
        assert (await Peer(bench, "leaves").join("worker")).gated
        bench.front.bulk.weights.gate = None
        assert not (await Peer(bench, "leaves").join("worker")).gated
