"""A repeatable run comes to the same weights and games, bit by bit, however often it is killed."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changed_settings import self_play, varied
from in_process import ends

from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit
from azselfplay.host.runs import CRASH_AT, RunFolder
from azselfplay.lab import azrun, repeatable
from azselfplay.lab.repeatable import Repeatable, RepeatableRun
from azselfplay.lab.report.status_command import of_folder
from azselfplay.store.reader import Range, StoreReader
from net.inference import Inference
from server.config import GateConfig, ServerConfig
from server.preparation import opened_run
from trainer.config import TrainerConfig
from trainer.training_loop import TrainingLoop

GAMES, ROUNDS = 12, 4
TRAINER = varied(
    TrainerConfig(), batch=16, min_positions=60, positions=200, cpu_threads=1, ema=0.9, lr=0.01,
    held_out=0.2, growth=True, growth_min=60, cosine_steps=20,
)  # fmt: skip
SETTINGS = self_play(simulations=8, seed=5, random_share=0.5, random_plies=2)
SERVER = ServerConfig(game="tic_tac_toe", net="1x8", run="again", games=5, self_play=SETTINGS)
DRIVER = "import sys, test_repeatable as t; t.play(t.Path(sys.argv[1]))"


def opened(runs: Path, net: str = "1x8", games: int = GAMES) -> RepeatableRun:
    folder = RunFolder(runs, "again")
    folder.create("tic_tac_toe", 1)
    return RepeatableRun(replace(SERVER, net=net), TRAINER, folder, games)


def play(runs: Path, net: str = "1x8", rounds: int = ROUNDS) -> None:
    """Play until the run has so many rounds; a killed run goes on."""
    run = opened(runs, net)
    while run.round < rounds:
        asyncio.run(run.play_and_train())
    run.close()


def hashes(runs: Path) -> dict[str, str]:
    """Return hashes of the weights of each version, and of each game."""
    folder = RunFolder(runs, "again")
    found = {file.name: file.read_bytes() for file in folder.weights.glob("*.safetensors")}
    reader = StoreReader(folder.games)
    found |= {stored.uid.hex(): stored.unpacked() for stored in reader.rows(Range())}
    reader.close()
    return {name: hashlib.sha256(data).hexdigest() for name, data in found.items()}


def in_a_process(runs: Path, crash: str) -> int:
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, CRASH_AT: crash}
    return subprocess.run([sys.executable, "-c", DRIVER, str(runs)], env=environment, check=False).returncode


def served(runs: Path, stop: Stop) -> dict[str, Any]:
    """Do what azrun does, until `stop`. Return its last line of output."""
    alone = Repeatable(replace(SERVER, runs=runs), TRAINER, GAMES, 0.0)
    asyncio.run(alone.main(stop))
    return alone.summary


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the hashes of a run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    play(folder)
    return hashes(folder)


def test_two_runs_of_a_sparse_network_have_the_same_bits(tmp_path: Path) -> None:
    play(tmp_path / "a", "sparse")
    play(tmp_path / "b", "sparse")
    first = hashes(tmp_path / "a")
    assert first == hashes(tmp_path / "b")
    weights = [name for name in first if name.endswith(".safetensors")]
    assert len({first[name] for name in weights}) == ROUNDS + 1
    assert len(first) == ROUNDS + 1 + GAMES * ROUNDS


def test_a_run_that_is_killed_comes_to_the_same_bits(tmp_path: Path, wanted: dict[str, str]) -> None:
    """It is killed while a round's games are being stored, between that and the checkpoint, and between the
    checkpoint and the new weights."""
    for crash in ("store.begun:1", "store.committed:2", "checkpoint.written:2"):
        assert in_a_process(tmp_path / "b", crash) == -signal.SIGKILL, crash
    play(tmp_path / "b")
    assert hashes(tmp_path / "b") == wanted


def test_a_round_that_is_stopped_in_its_steps_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, str]
) -> None:
    """Nothing of it is published."""
    stop, make_step = Stop(), TrainingLoop.make_step

    def last_step(training: TrainingLoop) -> None:
        make_step(training)
        stop.request()

    with monkeypatch.context() as patched:
        patched.setattr(TrainingLoop, "make_step", last_step)
        patched.setattr(TrainingLoop, "turn_seconds", 1e-3)
        patched.setattr(repeatable.logs, "set_up", lambda *_: None)
        summary = served(tmp_path / "b", stop)
    assert (summary["version"], summary["steps"]) == (0, 0)
    play(tmp_path / "b")
    assert hashes(tmp_path / "b") == wanted


def test_status_tells_from_the_files_what_a_run_has_trained_while_it_runs(tmp_path: Path) -> None:
    with opened_run(replace(SERVER, runs=tmp_path), 1, listens=False) as folder:
        run = RepeatableRun(SERVER, TRAINER, folder, GAMES)
        for _ in range(2):
            asyncio.run(run.play_and_train())
        during = of_folder("again", tmp_path)
        step = run.weights.step
        run.close()
    after = of_folder("again", tmp_path)
    assert (during.live, during.trainer_runs, after.trainer_runs) == (False, True, False)
    assert during.figures["trainer"]["step"] > 0
    assert after.figures["trainer"]["step"] == step
    assert after.figures["trainer"]["games"] == 2 * GAMES
    assert after.figures["trainer"]["policy_loss"] is not None


def test_a_network_that_fails_ends_the_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise MemoryError("no room")

    run = opened(tmp_path)
    monkeypatch.setattr(Inference, "run", fails)
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(asyncio.wait_for(run.play_and_train(), 1000))
    run.close()
    assert caught.group_contains(MemoryError, match="no room")


def test_another_size_of_round_is_refused(tmp_path: Path) -> None:
    play(tmp_path, rounds=1)
    with ends(Exit.CONFIG, "not played with --repeatable 6"):
        opened(tmp_path, games=6)


@pytest.mark.parametrize(
    ("server", "trainer", "message"),
    [
        (SERVER, varied(TRAINER, cosine_steps=0, cosine_minutes=3.0), "cosine-minutes follows the clock"),
        (SERVER, varied(TRAINER, device="cuda"), "--device cuda of the trainer"),
        (SERVER, varied(TRAINER, keep_games=GAMES - 1), "--keep-games 11"),
        (replace(SERVER, gate=GateConfig("alphago_zero")), TRAINER, "gate.mode alphago_zero"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(
    server: ServerConfig, trainer: TrainerConfig, message: str, tmp_path: Path
) -> None:
    with ends(Exit.CONFIG, message):
        RepeatableRun(server, trainer, RunFolder(tmp_path, "again"), GAMES)


def azrun_with(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["azrun", "--game", "tic_tac_toe", "--repeatable", "12", *words])
    return azrun.main()


@pytest.mark.parametrize("words", [["--gpus", "0"], ["--web", "8000"], ["--client-workers", "1"]])
def test_azrun_refuses_what_is_for_other_processes(words: list[str], monkeypatch, capsys) -> None:
    assert azrun_with(words, monkeypatch) == Exit.CONFIG
    assert f"{words[0]} has no meaning with --repeatable" in capsys.readouterr().err


def test_azrun_begins_such_a_run(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(repeatable.logs, "set_up", lambda *_: None)
    words = ["--runs", str(tmp_path), "--run", "again", "--net", "1x8", "--minutes", "1e-9"]
    assert azrun_with(words, monkeypatch) == Exit.OK
    (weights,) = RunFolder(tmp_path, "again").weights.glob("*.safetensors")
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    summary = {"games": 0, "steps": 0, "version": 0, "weights_sha256": digest}
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == summary
