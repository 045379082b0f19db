"""What a trainer begins with: its checkpoint, or a new network where that loses nothing."""

import asyncio
import errno
import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from changed_settings import varied
from fake_server import TIMEOUT, FakeServer, welcome
from free_ports import free_base_port
from in_process import ends
from test_service import beside_trainer

from azselfplay.games import get_game
from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit
from azselfplay.host.reading import read_toml
from bench.random_games import random_game
from net.architectures.network import build
from net.architectures.registry import Architecture, named
from net.architectures.residual import Residual
from net.weights import WeightsMeta, from_bytes, load, to_bytes
from protocol.errors import Code
from protocol.messages import CHUNK, PROTOCOL_VERSION, Chunk, Goodbye, Hello, Refused, WeightsInfo, Welcome
from trainer import checkpoint, service
from trainer.checkpoint import Progress, why_no_takeover
from trainer.config import TrainerConfig
from trainer.ranks import Ranks
from trainer.run_setup import Run, has_checkpoint, open_run
from trainer.service import Service
from trainer.weights import ServerWeights

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")


def welcome_at(step: int) -> Welcome:
    """Return the WELCOME of a server that plays with weights of this step."""
    return msgspec.structs.replace(welcome(), weights=WeightsInfo(7, step, bytes(32), 1, GAME.name))


def opened(root: Path, welcomed: Welcome, **changes: object) -> Run:
    config = varied(TrainerConfig(), runs=str(root), net="1x8", device="cpu", batch=32, positions=5000)
    return open_run(varied(config, **changes), welcomed)  # type: ignore[arg-type]


def close(run: Run) -> None:
    run.reader.close()
    run.store.close()
    run.lock.close()


def refused(code: Exit, words: str, root: Path, welcomed: Welcome, **changes: object) -> None:
    """Check that a trainer does not begin, and says these words."""
    with ends(code, re.escape(words) or None):
        opened(root, welcomed, **changes)


def test_a_new_network_does_not_replace_a_trained_one(tmp_path: Path) -> None:
    """Without its checkpoint the trainer ends, says what can be done, and leaves no files behind."""
    for words in ("step 600", "--weights server", "--weights new", "--run"):
        refused(Exit.BAD_DATA, words, tmp_path, welcome_at(600))
    assert not (tmp_path / "run-1").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": "ownership:1"}, "in tic_tac_toe nobody owns cells"),
        ({"positions": 10, "min_positions": 5}, "--window.positions 10"),
        (
            {"positions": 100, "min_positions": 95},
            "--window.min-positions 95 is too near --window.positions 100",
        ),
    ],
)
def test_settings_that_do_not_suit_the_game_are_refused(tmp_path, changes: dict, says: str) -> None:
    """Games leave the window whole, so with a window hardly larger than the least, training would wait for a
    number that is reached by chance."""
    refused(Exit.CONFIG, says, tmp_path, welcome_at(0), **changes)
    assert not (tmp_path / "run-1").exists()


def test_the_run_folder_has_the_settings_as_they_were_given(tmp_path: Path) -> None:
    """A restart with this file is on all devices again, though rank 0 itself has one of them."""
    ranks, own = Ranks(), varied(TrainerConfig(), runs=str(tmp_path), device="cpu", cpu_threads=1)
    ranks.given = varied(own, device="cuda:0,cuda:1", cpu_threads=2)
    close(open_run(own, welcome(), ranks))
    written = read_toml(tmp_path / "run-1" / "trainer.toml")
    assert (written["device"], written["cpu_threads"]) == ("cuda:0,cuda:1", 2)


def test_checkpoints_whose_networks_are_of_no_use_are_named_and_stay(tmp_path: Path) -> None:
    """With `--weights server` nothing was fetched, because there are checkpoints."""
    run = opened(tmp_path, welcome_at(0))
    other = get_game("connect_four")
    data = to_bytes(build(named("1x8"), other, 1), WeightsMeta(other.name, 1, named("1x8")))
    progress = Progress(9, 0, 1, 0, "adamw")
    checkpoint.save(run.folder.checkpoints, progress, data, {}, np.random.default_rng(0))
    close(run)
    assert has_checkpoint(varied(TrainerConfig(), weights="server"), run.folder)
    words = "none with a network that this version can use"
    refused(Exit.BAD_DATA, words, tmp_path, welcome_at(600), weights="server")
    assert checkpoint.is_there(run.folder.checkpoints)
    for state in run.folder.checkpoints.glob("*.state"):
        state.write_bytes(b"torn")
    refused(Exit.BAD_DATA, "", tmp_path, welcome_at(600))


def test_a_checkpoint_of_a_newer_version_that_stores_more_can_be_used() -> None:
    progress = Progress(step=7, samples=70, version=3, last_seq=9, optimizer="sgd")
    stored = json.dumps({**asdict(progress), "of_a_newer_version": 1})
    assert checkpoint._progress({"progress": stored}) == progress


@pytest.mark.parametrize("weights", ["", "new"])
def test_a_checkpoint_that_cannot_be_read_at_the_moment_is_not_damaged(
    tmp_path, monkeypatch, weights
) -> None:
    run = opened(tmp_path, welcome_at(0))
    run.training.save()
    close(run)
    read = Path.read_bytes

    def failing(path: Path) -> bytes:
        if path.suffix == ".state":
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    refused(Exit.DISK, "Stale file handle", tmp_path, welcome_at(600), weights=weights)


def test_who_insists_begins_anew_and_who_has_a_checkpoint_goes_on(tmp_path: Path, caplog) -> None:
    run = opened(tmp_path, welcome_at(600), weights="new")
    run.training.save()
    close(run)
    assert not read_toml(run.folder.trainer_config).get("weights"), "it is said once"
    close(opened(tmp_path, welcome_at(600)))
    assert "--weights" not in caplog.text
    close(opened(tmp_path, welcome_at(600), weights="new"))
    assert "goes on from its checkpoint: --weights is for runs without one" in caplog.text


def test_weights_with_which_a_run_once_began_do_not_replace_those_trained_since(tmp_path: Path) -> None:
    """A lost folder, or another machine with the same settings, would otherwise undo the training."""
    sizes, file = named("1x8"), tmp_path / "net.safetensors"
    file.write_bytes(to_bytes(build(sizes, GAME, 1), WeightsMeta(GAME.name, 1, sizes, step=50_000)))
    trained = welcome_at(600)
    words = f"--weights {file} would replace them"
    refused(Exit.BAD_DATA, words, tmp_path / "runs", trained, weights=str(file))
    # The server plays with just these, or it has not had any from a trainer.
    for of_server in ({"sha256": hashlib.sha256(file.read_bytes()).digest()}, {"version": 0}):
        plays = msgspec.structs.replace(trained.weights, **of_server)
        welcomed = msgspec.structs.replace(trained, weights=plays)
        close(opened(tmp_path / f"runs-{plays.version}", welcomed, weights=str(file)))


@pytest.mark.parametrize(
    ("sizes", "name", "net", "code", "words"),
    [
        (Residual(2, 8), "net", "1x8", Exit.CONFIG, ("2x8tanh", "--net asks for 1x8", "leave out --net")),
        (named("sparse"), "net", "sparse100", Exit.CONFIG, ("give another --net",)),
        (Residual(1, 8), "000001-00000000", "1x8", Exit.BAD_DATA, ("is damaged",)),
    ],
    ids=["another than asked for", "does not suit the network", "not the bytes of its name"],
)
def test_weights_that_cannot_be_those_asked_for_are_refused(
    tmp_path: Path, sizes: Architecture, name: str, net: str, code: Exit, words: tuple[str, ...]
) -> None:
    file = tmp_path / f"{name}.safetensors"
    file.write_bytes(to_bytes(build(sizes, GAME, 1), WeightsMeta(GAME.name, 1, sizes)))
    for word in words:
        refused(code, word, tmp_path / "runs", welcome(), weights=str(file), net=net)


def test_a_checkpoint_and_a_network_of_impossible_sizes_are_refused(tmp_path: Path) -> None:
    run = opened(tmp_path, welcome())
    run.training.save()
    close(run)
    refused(Exit.CONFIG, "", tmp_path, welcome(), net="sparse100")


def test_a_run_folder_has_one_trainer(tmp_path: Path) -> None:
    """The second one ends with a message and changes nothing; when the first has ended, it may work there."""
    first = opened(tmp_path, welcome())
    refused(Exit.TRY_AGAIN, "belongs to another trainer", tmp_path, welcome())
    close(first)
    close(opened(tmp_path, welcome()))


def test_a_run_folder_belongs_to_the_run_that_the_server_names(tmp_path: Path) -> None:
    """A run that was made anew under the same name has another identity; nothing of the old run is
    touched."""
    old, new = (msgspec.structs.replace(welcome(), run_id=letter * 16) for letter in (b"i", b"j"))
    close(opened(tmp_path, old))
    close(opened(tmp_path, old))
    refused(Exit.BAD_DATA, "another run of this name", tmp_path, new)
    close(opened(tmp_path / "elsewhere", new))


async def test_a_second_trainer_that_cannot_take_over_says_so_while_it_waits(tmp_path, caplog) -> None:
    another = Goodbye(Code.TRAINER_ALREADY_PRESENT, "another trainer is connected", retry_after=0.01)
    async with beside_trainer(tmp_path, another) as (server, _):
        await server.until(lambda: "cannot take over, because it sees no checkpoints" in caplog.text)
    run = opened(tmp_path, welcome())
    waits = varied(TrainerConfig(), runs=str(tmp_path))
    assert why_no_takeover(waits)
    assert not why_no_takeover(varied(waits, weights="server"))
    assert why_no_takeover(varied(waits, weights="net.safetensors"))
    run.training.save()
    close(run)
    assert not why_no_takeover(waits)
    assert why_no_takeover(varied(waits, run="run-2"))


def test_a_trainer_elsewhere_goes_on_from_the_servers_weights(tmp_path, monkeypatch) -> None:
    """A standby on another machine has no checkpoint; it begins with the network that plays, at its step, on
    which the learning rate depends."""
    monkeypatch.setattr(service, "STATUS_SECONDS", 0.05)
    torch.manual_seed(8)
    sizes = Residual(2, 96)
    data = to_bytes(build(sizes, GAME, 1), WeightsMeta(GAME.name, 1, sizes, 600, 7))
    assert len(data) > CHUNK
    info = WeightsInfo(7, 600, hashlib.sha256(data).digest(), len(data), GAME.name)

    async def scenario(named: WeightsInfo | None) -> None:
        port = free_base_port()  # another one each time: ZeroMQ gives a port back some time after `close`
        where = {"server": f"127.0.0.1:{port}", "runs": str(tmp_path)}
        config = TrainerConfig(**where, weights="server", device="cpu", cpu_threads=1)
        server = FakeServer(port, msgspec.structs.replace(welcome(), weights=named))
        server.served = data
        stop = Stop()
        async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as group:
            group.create_task(Service(config, Hello(PROTOCOL_VERSION, "trainer", "test")).main(stop))
            await server.until(lambda: server.figures)
            stop.request()
        server.close()

    asyncio.run(scenario(info))
    assert read_toml(tmp_path / "run-1" / "trainer.toml")["weights"] == "server"
    file = tmp_path / "run-1" / "checkpoints" / "step-000000600.safetensors"
    begun, _ = load(file, game=GAME, history=1)
    played, _ = from_bytes(data, game=GAME, history=1)
    assert all(torch.equal(tensor, played.state_dict()[name]) for name, tensor in begun.state_dict().items())
    # It has a checkpoint now, which is enough to go on.
    asyncio.run(scenario(None))


async def test_weights_that_the_server_keeps_no_longer_end_the_trainer(tmp_path: Path) -> None:
    """Otherwise it would ask for them without end; answers that nobody waits for are ignored."""
    info = WeightsInfo(1, 10, bytes(32), 4, GAME.name)
    told = msgspec.structs.replace(welcome(), weights=info)
    weights, stop = ServerWeights(lambda *_: True), Stop()
    assert not weights.on_message(Chunk(bytes(32), 0), [memoryview(b"1234")])
    async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as group:
        fetching = group.create_task(weights.file(told, tmp_path, stop))
        await asyncio.sleep(0)
        with ends(Exit.TRY_AGAIN, "no longer kept"):
            weights.on_message(Refused("unknown_weights", "no longer kept"), [])
        stop.request()
        assert await fetching is None


async def test_nothing_is_published_before_the_first_checkpoint(tmp_path: Path) -> None:
    """Otherwise a trainer that is killed in its first minute could not go on."""
    rng = np.random.default_rng(1)
    there: list[Path] = []
    async with beside_trainer(tmp_path, net="1x8", steps=1, checkpoint_seconds=1e6) as (server, _):
        for _ in range(60):
            server.play(random_game(GAME, rng, simulations=20))
        await server.until(lambda: server.offers)
        there.extend((tmp_path / "run-1" / "checkpoints").glob("*.state"))
    assert len(there) == 1
