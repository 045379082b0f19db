"""What azserver checks and prepares before anybody plays."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from changed_settings import self_play
from free_ports import free_base_port
from in_process import ends

from azselfplay.batching import loop
from azselfplay.games import get_game
from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.hardware import DEVICE_FILES, Gpus
from azselfplay.host.processes import Stopped, output_of
from azselfplay.host.runs import RunFolder
from net.architectures.network import build
from net.architectures.registry import named
from net.create import create
from net.weights import WeightsMeta, save
from protocol.messages import WeightsInfo
from server import preparation
from server.app import App
from server.config import GateConfig, ServerConfig
from server.given_weights import described
from server.preparation import (
    choose_devices,
    first_weights,
    network_of_run,
    opened_run,
    warn_of_waiting_games,
    with_start_positions,
)
from server.weights import WeightsStore
from trainer.checkpoint import check_begins_anew
from trainer.config import TrainerConfig

TWO = ("NVIDIA A", "NVIDIA B")


def test_start_positions_are_read_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "starts.txt"
    config = ServerConfig(game="tic_tac_toe", self_play=self_play(positions=f"@{file}"))
    with ends(Exit.CONFIG, r"starts\.txt cannot be read"):
        with_start_positions(config)
    file.write_text("x../.../...\n")
    assert with_start_positions(config).start.positions == "x../.../...\n"
    file.write_text("x../.../...\n", encoding="utf-8-sig")
    assert with_start_positions(config).start.positions == "x../.../...\n"
    for given in ("", "x../.../..."):
        config = ServerConfig(game="tic_tac_toe", self_play=self_play(positions=given))
        assert with_start_positions(config) is config.self_play


@pytest.mark.parametrize(
    ("gpus", "found", "devices"),
    [
        ("", TWO, ["cuda:0"]),  # the other one is the trainer's
        ("", (*TWO, "NVIDIA C"), ["cuda:0", "cuda:1"]),
        ("", TWO[:1], ["cuda:0"]),
        ("", (), ["cpu"]),
        ("1", TWO, ["cuda:1"]),
        ("0, 1", TWO, ["cuda:0", "cuda:1"]),
        ("cpu,cpu", TWO, ["cpu", "cpu"]),
        ("none", TWO, []),
    ],
)
def test_gpus_become_devices(gpus: str, found: tuple, devices: list[str]) -> None:
    usable = [f"cuda:{index}" for index in range(len(found))]
    assert choose_devices(gpus, Gpus(found, usable)) == devices


def test_a_gpu_without_code_is_left_out() -> None:
    assert choose_devices("", Gpus((*TWO, "NVIDIA C"), ["cuda:0", "cuda:2"])) == ["cuda:0"]


@pytest.mark.parametrize(
    ("gpus", "found", "says"),
    [
        ("2", TWO, r"GPU 2 does not exist: torch finds 0 \(NVIDIA A\), 1 \(NVIDIA B\)"),
        ("0", (), "GPU 0 is not there: no driver; .* --gpus cpu"),
        ("all", TWO, "GPU numbers and the word cpu"),
        ("1,1", TWO, "twice"),
        ("none,cpu", TWO, "none alone"),
    ],
)
def test_a_wrong_gpu_is_explained(gpus: str, found: tuple, says: str) -> None:
    with ends(Exit.CONFIG, says):
        choose_devices(gpus, Gpus(found, (), "no driver"))


@pytest.mark.parametrize("may_come", [True, False])
def test_a_gate_needs_a_gpu_that_exists_or_may_come(may_come: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch is asked even where there is no driver yet: it may load one."""

    async def output(*_: str, stop: Stop) -> str:
        return json.dumps(Gpus((), (), "none; see dmesg", may_come))

    monkeypatch.setattr(preparation, "may_have_gpus", lambda: False)
    monkeypatch.setattr(preparation, "output_of", output)
    gate = GateConfig(mode="alphago_zero", device="cuda:1")
    code = Exit.TRY_AGAIN if may_come else Exit.CONFIG
    with ends(code, r"--gate.device cuda:1: GPU 1 is not there: none; see dmesg$"):
        asyncio.run(preparation.check_gate_device(gate, Stop()))
    for device in ("cpu", ""):
        asyncio.run(preparation.check_gate_device(replace(gate, device=device), Stop()))


@pytest.mark.parametrize(("driver", "code"), [(True, Exit.TRY_AGAIN), (False, Exit.CONFIG)])
def test_a_gpu_that_disappears_is_waited_for(driver: bool, code: Exit, monkeypatch) -> None:
    """Its evaluator is started again, and the others go on. Without a driver it never comes back."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    # Without its device file, the driver in /proc says nothing.
    monkeypatch.setattr(loop, "may_have_gpus", lambda files: driver and files == DEVICE_FILES)
    with ends(code, r"cuda:1 is not there: .* 1 GPUs now"):
        loop.open_device("cuda:1", get_game("tic_tac_toe"), 1, 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    with ends(Exit.CONFIG, "is built without CUDA"):
        loop.open_device("cuda:1", get_game("tic_tac_toe"), 1, 0)


def test_a_gpu_that_this_torch_has_no_code_for_is_not_waited_for(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (6, 1))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "P40")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80"])
    monkeypatch.setattr(loop, "may_have_gpus", lambda _: True)
    with ends(Exit.CONFIG, r"P40 \(sm_61\), and torch .* sm_80 only"):
        loop.open_device("cuda:0", get_game("tic_tac_toe"), 1, 0)


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 2), (4, 3), (16, 12)])
def test_workers_that_evaluate_leave_a_quarter_of_the_cores_to_the_trainer(cores: int, workers: int) -> None:
    app = App(ServerConfig())
    app._cores = cores
    assert app._workers([], in_search=True) == workers


def test_a_run_is_served_by_one_server_only(tmp_path: Path) -> None:
    config = ServerConfig(game="tic_tac_toe", runs=tmp_path, port=free_base_port())
    with opened_run(config, 1) as folder:
        assert folder.name == "tic_tac_toe-small"
        assert 'game = "tic_tac_toe"' in folder.config.read_text()
        with pytest.raises(Fatal, match="belongs to another azserver"), opened_run(config, 1):
            pass
    with opened_run(config, 1):
        pass


def test_a_failing_child_ends_with_its_own_words_and_code() -> None:
    with ends(Exit.USAGE, "required: --endpoint"):
        asyncio.run(output_of("server.evaluator", stop=Stop()))


def test_a_stop_ends_a_child_at_once() -> None:
    async def main() -> None:
        stop = Stop()
        stop.request()
        await output_of("http.server", "0", stop=stop)

    with pytest.raises(Stopped):
        asyncio.run(main())


def begun(config: ServerConfig, store: WeightsStore) -> WeightsInfo:
    async def begin() -> WeightsInfo:
        begins = await network_of_run(config, 1, store, Stop())
        return await first_weights(config, 1, begins, store, Stop())

    return asyncio.run(begin())


def test_a_new_run_begins_with_the_given_weights_and_goes_on_with_its_own(tmp_path: Path, caplog) -> None:
    """A trainer takes them for trained ones, whatever `--net` says."""
    file, game, sizes = tmp_path / "mine.safetensors", get_game("tic_tac_toe"), named("1x8")
    save(file, build(sizes, game, 1), WeightsMeta(game.name, 1, sizes, step=600, version=7))
    data, store = file.read_bytes(), WeightsStore(tmp_path, game.name)
    config = ServerConfig(game=game.name, weights=file)
    info = begun(config, store)
    assert store.path(info).read_bytes() == data
    assert (info.architecture, info.step, info.version) == ("1x8", 600, 0)
    with pytest.raises(Fatal, match=r"plays with weights of step 600 .*\(--weights server\)"):
        check_begins_anew(TrainerConfig(), RunFolder(tmp_path, "run"), info)
    file.unlink()
    assert begun(config, store) == info
    assert "--net and --weights are for new runs" in caplog.text


@pytest.mark.parametrize(
    ("game", "history", "says"),
    [("chess", 1, "are for the game tic_tac_toe"), ("tic_tac_toe", 2, "take a history of 1 positions")],
)
def test_weights_of_another_game_do_not_begin_a_run(
    tmp_path: Path, game: str, history: int, says: str
) -> None:
    file = tmp_path / "mine.safetensors"
    create("tic_tac_toe", 1, "1x8", 0, file)
    with ends(Exit.BAD_DATA, says):
        described(file, game, history)


def test_weights_that_are_missing_are_explained(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "tic_tac_toe")
    config = ServerConfig(weights=tmp_path / "none.safetensors")
    with pytest.raises(Fatal, match="does not exist"):
        begun(config, store)


def test_the_network_of_a_run_is_that_of_its_weights_or_of_the_given_file(tmp_path, monkeypatch) -> None:
    """`--net` does not change this, but a file of another family than `--net` is refused."""

    async def output(_: str, *arguments: str, **_stop: Stop) -> str:
        return json.dumps(described(Path(arguments[-1]), "chess", 1))

    def name(config: ServerConfig, store: WeightsStore) -> str:
        return asyncio.run(network_of_run(config, 1, store, Stop())).network

    monkeypatch.setattr(preparation, "output_of", output)
    sparse, other, store = tmp_path / "sparse", tmp_path / "other", WeightsStore(tmp_path, "chess")
    create("chess", 1, "sparse32", 0, sparse)
    create("chess", 1, "1x8", 0, other)
    assert name(ServerConfig(net="4x64"), store) == "4x64"
    assert name(ServerConfig(weights=sparse), store) == "sparse32"
    with pytest.raises(Fatal, match="holds no network of the family `sparse`"):
        name(ServerConfig(net="sparse", weights=other), store)
    store.add(b"weights", 3, 30, "sparse")
    assert name(ServerConfig(net="4x64"), WeightsStore(tmp_path, "chess")) == "sparse"


def test_games_that_earlier_workers_left_are_told_to_a_server_without_workers(tmp_path, caplog) -> None:
    run = RunFolder(tmp_path, "run")
    warn_of_waiting_games(run)
    assert not caplog.records
    left = run.spool / "chess-run+0" / "worker-1"
    (left / "kept").mkdir(parents=True)
    for name in ("a.game", "b.game", "kept/c.game"):
        (left / name).touch()
    warn_of_waiting_games(run)
    assert caplog.messages[0].startswith(f"2 games of earlier workers wait in {run.spool}: ")


def test_a_server_without_evaluators_has_no_workers_of_its_own() -> None:
    assert App(ServerConfig())._workers([], in_search=False) == 0
    with ends(Exit.CONFIG, "leave --workers out"):
        App(ServerConfig(workers=2))._workers([], in_search=False)
