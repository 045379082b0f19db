"""Settings of the trainer are compared on the stored games of a run."""

import dataclasses
import json
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.host.config import to_toml
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.lab.experiments import on_games
from azselfplay.store.players import set_quarantine
from azselfplay.store.sqlite import Store
from bench.random_games import entry, random_game
from trainer.config import TrainerConfig

GAME = get_game("tic_tac_toe")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Make a run with a tiny network and settings of its trainer."""
    folder = RunFolder(tmp_path / "runs", "small")
    folder.create(GAME.name, 1)
    folder.config.write_text('net = "1x8"\n')
    folder.trainer_config.write_text(to_toml({"optimizer": {"batch": 64}, "device": "cpu"}))
    return folder


def test_each_variant_is_trained_and_judged_on_games_that_none_was_trained_on(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has 600 random games."""
    rng, store = np.random.default_rng(0), Store(run.games, GAME.name)
    store.commit([entry(random_game(GAME, rng, simulations=20)) for _ in range(600)])
    store.close()
    # prepare_thread would flush tiny numbers to 0 in everything that this process does later.
    monkeypatch.setattr(on_games, "prepare_thread", lambda _: None)
    flags = ["--variant", "no learning=--optimizer.lr 1e-9", "--steps", "60", "--seeds", "1", "2"]
    monkeypatch.setattr(sys, "argv", ["on_games", str(run.path), *flags, "--out", str(tmp_path)])
    assert on_games.main() == 0
    folder = tmp_path / "on_games-small"
    found = json.loads((folder / "found.json").read_bytes())["found"]
    made = [(one["variant"], one["seed"]) for one in found]
    assert made == [(name, seed) for seed in (1, 2) for name in ("as it was", "no learning")]
    losses = [one["figures"]["value_loss"] for one in found]
    assert losses[0] < losses[1]
    assert losses[2] < losses[3]
    squares = [one["figures"]["value tree"] for one in found]
    assert squares[0] < squares[1], "it has learned who wins"
    assert all(0 < one["figures"]["tree"] < 1 for one in found)
    assert "| no learning | 2 | 60 |" in (folder / "README.md").read_text()


def test_a_new_network_learns_nothing_from_players_in_quarantine(run: RunFolder) -> None:
    """It is new whatever the run itself began with."""
    run.trainer_config.write_text(to_toml({"optimizer": {"batch": 64}, "device": "cpu", "weights": "/gone"}))
    rng, truth, found = np.random.default_rng(0), on_games.Truth(GAME, 1), []
    honest, cheats = ([entry(random_game(GAME, rng, simulations=20)) for _ in range(400)] for _ in range(2))
    for more in ([], [dataclasses.replace(one, player="keys/cheat") for one in cheats]):
        with closing(Store(run.games, GAME.name)) as store:
            store.commit(honest + more)
        set_quarantine(run.games, "keys/cheat", quarantined=True)
        found.append(on_games.teach(run, ("", []), 1, 3, truth)["figures"])
    assert found[0] == found[1]


def test_a_variant_with_a_window_that_grows_draws_from_the_newest_games(run: RunFolder) -> None:
    """A variant that draws from all games, which are fewer than `growth_min`, is the run as it was."""
    rng, truth = np.random.default_rng(0), on_games.Truth(GAME, 1)
    with closing(Store(run.games, GAME.name)) as store:
        store.commit([entry(random_game(GAME, rng, simulations=20)) for _ in range(400)])
    flags = [[], *(["--window.growth", "--window.growth-min", least] for least in ("5000", "50"))]
    found = [on_games.teach(run, ("", more), 1, 3, truth)["figures"] for more in flags]
    assert found[0] == found[1] != found[2]


def test_a_rate_that_fell_with_time_falls_over_the_steps(run: RunFolder) -> None:
    run.trainer_config.write_text(to_toml({"optimizer": {"cosine_minutes": 60}, "device": "cpu"}))
    own = on_games.settings_of(run, [], 1, 100).optimizer
    assert (own.cosine_minutes, own.cosine_steps) == (0, 100)
    assert on_games.settings_of(run, ["--optimizer.cosine-steps", "0"], 1, 100).optimizer.cosine_steps == 0


def test_flags_of_a_variant_lie_over_the_settings_of_the_run(run: RunFolder) -> None:
    name, flags = on_games.variant_of("q=--loss.value-q-share 0.5")
    settings = on_games.settings_of(run, flags, 7, 100)
    assert (name, settings.loss.value_q_share, settings.seed) == ("q", 0.5, 7)
    assert (settings.optimizer.batch, settings.loss.value_weight) == (64, TrainerConfig().loss.value_weight)


def test_the_run_of_a_trainer_on_several_devices_is_compared_on_one(run: RunFolder) -> None:
    run.trainer_config.write_text(to_toml({"device": "cuda:0,cuda:1"}))
    assert on_games.settings_of(run, [], 1, 100).device == "cuda:0"


@pytest.mark.parametrize("text", ["", "no flags", "=--seed 1"])
def test_a_variant_without_name_or_flags_is_refused(text: str) -> None:
    with pytest.raises(Fatal, match="NAME=FLAGS") as caught:
        on_games.variant_of(text)
    assert caught.value.code == Exit.USAGE


def test_a_run_that_was_never_trained_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match="no trainer has worked"):
        on_games.settings_of(RunFolder(tmp_path, "new"), [], 1, 100)


def test_a_trainer_on_its_own_machine_is_told_where_to_name_the_network(run: RunFolder) -> None:
    run.config.unlink()
    with pytest.raises(Fatal, match=r"names the network: write net into"):
        on_games.teach(run, ("", []), 1, 3, on_games.Truth(GAME, 1))
