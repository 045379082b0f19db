"""A run folder that an older version left goes on, can be played from and reported on.

`old_run/` was written by commit 5073c14, whose settings had no groups: `azrun --game tic_tac_toe --net 1x8
--simulations 8 --minutes 1.2` with a Gumbel root, c_scale 0.3.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest
from changed_settings import self_play, varied
from fake_server import welcome

from engine.nets import load_net
from engine.search_choice import search_for
from games import get_game
from protocol.messages import WeightsInfo
from report.collecting import collect
from report.page import page
from runtime import config
from runtime.exits import Exit, Fatal
from runtime.runs import RunFolder
from search.evaluation_settings import FOR_EVALUATION
from server.config import MOVED, ServerConfig
from server.preparation import opened_run
from server.weights import WeightsStore
from store.reader import StoreReader
from trainer.config import MOVED as MOVED_TRAINER
from trainer.config import TrainerConfig
from trainer.run_setup import open_run

GAME = get_game("tic_tac_toe")
GONE = {"window_alpha", "window_beta", "visited_per_position", "version_slack", "alert_games"}
SETTINGS = {"command": "c", "examples": ("a", "b", "c"), "description": "d"}


@pytest.fixture
def old(tmp_path: Path) -> RunFolder:
    shutil.copytree(Path(__file__).parent / "old_run", tmp_path / "old")
    return RunFolder(tmp_path, "old")


def test_training_goes_on_from_its_checkpoint_and_its_games(old: RunFolder) -> None:
    info = msgspec.json.decode((old.weights / "current.json").read_bytes(), type=WeightsInfo)
    told = msgspec.structs.replace(welcome(), run="old", run_id=old.run_id, weights=info)
    settings = TrainerConfig(runs=str(old.path.parent), device="cpu")
    run = open_run(varied(settings, batch=16, min_positions=50, positions=2000), told)
    assert (run.training.step, run.training.version) == (info.step, info.version)
    run.training.fill(run.reader, run.store.newest)
    assert run.training.window.games > 100
    run.reader.close()
    run.store.close()
    run.lock.close()


def test_its_server_goes_on_with_its_weights_and_writes_its_settings_anew(old: RunFolder) -> None:
    now = ServerConfig(
        "tic_tac_toe", runs=old.path.parent, run="old", self_play=self_play(selection="gumbel")
    )
    with opened_run(now, 1) as folder:
        assert WeightsStore(folder.weights, GAME.name).open().version == 5
    read = config.load(ServerConfig, ["--config", str(old.config)], moved=MOVED, **SETTINGS)
    assert read.self_play == now.self_play


def test_its_networks_search_as_they_learned(old: RunFolder) -> None:
    (file,) = old.weights.glob("*.safetensors")
    assert load_net(file, GAME.name).step == 37
    gumbel = varied(FOR_EVALUATION, selection="gumbel", c_scale=0.3)
    assert search_for("", GAME, file) == gumbel


def test_its_report_shows_its_settings(old: RunFolder) -> None:
    games = StoreReader(old.games)
    text = page(collect(old, games, 50))
    games.close()
    assert "gumbel c scale" in text


@pytest.mark.parametrize(
    ("kind", "moved", "file", "gone"),
    [
        (ServerConfig, MOVED, "config.toml", set()),
        (TrainerConfig, MOVED_TRAINER, "trainer.toml", GONE),
    ],
)
def test_each_of_its_settings_has_a_name_now_or_is_gone(
    old: RunFolder, kind: type, moved: dict[str, str], file: str, gone: set[str]
) -> None:
    """No old name is now the name of another setting."""
    now = set(config.flattened(asdict(kind())))
    assert not set(moved) & now
    written = tomllib.loads((old.path / file).read_text())
    assert set(config.flattened(config.renamed(written, moved))) - now == gone


@pytest.mark.parametrize(
    ("kind", "moved", "file", "names"),
    [
        (ServerConfig, MOVED, "config.toml", r"'mode' has another name now: 'gate\.mode'"),
        (TrainerConfig, MOVED_TRAINER, "trainer.toml", "'begin_anew' has another name now: 'weights'"),
    ],
)
def test_its_settings_given_to_a_program_are_refused_with_their_new_names(
    old: RunFolder, kind: type, moved: dict[str, str], file: str, names: str
) -> None:
    with pytest.raises(Fatal, match=names) as caught:
        config.load(kind, ["--config", str(old.path / file)], moved=moved, **SETTINGS)
    assert caught.value.code == Exit.CONFIG
