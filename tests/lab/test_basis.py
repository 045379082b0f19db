"""What a run of azrun is based on: the recipe of its game and this machine, or its own settings."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from azselfplay.host.config import to_toml
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.lab import azrun_config as basis
from azselfplay.lab.azrun_config import (
    Basis,
    RunConfig,
    basis_of,
    check_parts,
    for_one_process,
    make_commands,
)
from azselfplay.lab.experiments import recipe as recipes
from server.config import ServerConfig


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the machine has two cores and no GPU."""
    monkeypatch.setattr(basis, "has_gpu", lambda gpus: gpus not in ("", "cpu"))
    monkeypatch.setattr(basis, "usable_cores", lambda: 2)


def served(found: Basis, folder: Path) -> ServerConfig:
    """Return the settings of azserver, as the program itself reads them."""
    folder.mkdir(exist_ok=True)
    found.write(folder)
    return check_parts(make_commands(found.settings, 5600, folder))[0]


def line(settings: RunConfig, tmp_path: Path) -> str:
    found = basis_of(settings)
    return found.line(served(found, tmp_path / "basis"))


@pytest.mark.parametrize(
    ("game", "has_gpu", "name"),
    [
        ("chess", False, "chess_sparse"),
        ("chess", True, "chess_gpu"),
        ("go_9x9", True, "go_gpu"),  # a variant has the recipe of its game
        ("go_9x9", False, ""),
        ("go_5x5_komi24.5", True, "go_5x5_solver"),  # it has its own, which is for a CPU
        ("ludo", False, ""),
    ],
)
def test_the_default_is_that_of_the_game_and_the_machine(game: str, has_gpu: bool, name: str) -> None:
    assert recipes.default_for(game, has_gpu=has_gpu) == name


def test_a_game_has_at_most_one_default_for_each_machine() -> None:
    defaults = Counter((game, on) for game, _, on, _ in recipes.listed_recipes() if on)
    assert set(defaults.values()) == {1}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {},
            "chess on 2 cores: sparse network, gumbel, 32 simulations (recipe chess_sparse; --recipe list "
            "shows others)",
        ),
        (
            {"gpus": "0"},
            "chess on GPUs and 2 cores: medium network, gumbel, 200 simulations (recipe chess_gpu; --recipe "
            "list shows others)",
        ),
        (
            {"game": "chess960"},
            "chess960 on 2 cores: sparse network, puct, 32 simulations (the programs' own settings; "
            "--recipe list shows recipes of other games)",
        ),
    ],
)
def test_one_line_says_what_is_begun(flags: dict[str, object], said: str, tmp_path: Path) -> None:
    assert line(RunConfig(runs=tmp_path, **flags), tmp_path) == said  # type: ignore[arg-type]


def test_files_count_more_than_the_recipe_and_flags_more_than_files(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(
        'net = "sparse512"\ngames = 7\n[self_play]\nsearch.simulations = 5\ngumbel.c_scale = 0.7\n'
    )
    settings = RunConfig(runs=tmp_path, server_config=tmp_path / "server.toml", simulations=6)
    found = basis_of(settings)
    server = served(found, tmp_path / "basis")
    assert (server.net, server.run, server.games) == ("sparse512", "chess-sparse512", 7)
    assert (server.self_play.search.simulations, server.self_play.gumbel.c_scale) == (6, 0.7)
    assert server.self_play.history == 1, "from the recipe"


@pytest.mark.parametrize("recipe", ["", "chess_sparse"])
def test_the_trainer_goes_on_with_the_weights_with_which_azserver_begins(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text('weights = "strong.safetensors"\n')
    found = basis_of(RunConfig(runs=tmp_path, recipe=recipe, server_config=tmp_path / "server.toml"))
    assert found.trainer["weights"] == "server"


def test_beside_a_server_that_evaluates_nothing_a_client_does() -> None:
    found = basis_of(RunConfig(game="chess", gpus="none", recipe="none")).settings
    assert (found.workers, found.client_workers, found.client_device) == (0, 1, "cpu")


@pytest.mark.parametrize(
    ("flags", "device", "recipe"),
    [({}, "auto", "chess_gpu"), ({"client_device": "cpu"}, "cpu", "chess_sparse")],
)
def test_beside_a_server_that_evaluates_nothing_the_recipe_is_for_the_device_of_the_client(
    flags: dict[str, Any], device: str, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(basis, "has_gpu", lambda devices: devices in ("", "auto"))
    found = basis_of(RunConfig(runs=tmp_path, gpus="none", **flags))
    assert (found.settings.client_device, found.recipe) == (device, recipe)


@pytest.mark.parametrize(
    ("flags", "clients"),
    [
        *(({}, 0), ({"workers": 0}, 1), ({"client_device": "cpu"}, 1), ({"recipe": "none"}, 1)),
        *(({"server_config": "workers = 0"}, 1), ({"server_config": "workers = 0", "workers": 2}, 0)),
    ],
)
@pytest.mark.parametrize("goes_on", [False, True])
def test_azserver_plays_alone_with_a_recipe_unless_a_client_is_asked_for_or_it_has_no_workers(
    goes_on: bool, flags: dict[str, Any], clients: int, tmp_path: Path
) -> None:
    """In a run that goes on, its own settings count as a recipe does; the file may have been of its first
    start only."""
    given = dict(flags)
    text = given.pop("server_config", "")
    (tmp_path / "server.toml").write_text(text)
    if goes_on:
        folder = RunFolder(tmp_path, "chess-sparse")
        folder.create("chess", 1)
        folder.config.write_text(text)
    else:
        given["server_config"] = tmp_path / "server.toml"
    assert basis_of(RunConfig(runs=tmp_path, **given)).settings.client_workers == clients


@pytest.mark.parametrize(("minutes", "falls"), [(0.0, 0.0), (7.0, 7.0)])
def test_the_rate_falls_over_the_minutes_of_the_run_if_it_has_an_end(
    minutes: float, falls: float, tmp_path: Path
) -> None:
    """The minutes of the recipe do not count."""
    found = basis_of(RunConfig(runs=tmp_path, minutes=minutes))
    assert found.trainer["optimizer"]["cosine_minutes"] == falls


def test_a_repeatable_run_keeps_the_steps_over_which_the_rate_of_its_recipe_falls(tmp_path: Path) -> None:
    settings = RunConfig(game="connect_four", recipe="connect_four", repeatable=200, runs=tmp_path)
    optimizer = basis_of(for_one_process(settings)).trainer["optimizer"]
    assert optimizer["cosine_steps"] == recipes.load("connect_four").parts[1]["optimizer"]["cosine_steps"]
    assert optimizer["cosine_minutes"] == 0


def test_a_run_of_older_defaults_goes_on_as_it_was(tmp_path: Path) -> None:
    """It may be named or follow from --net. The game's recipe, with a history of 1, would be refused."""
    folder = RunFolder(tmp_path, "chess-tiny")
    folder.create("chess", 8)
    (folder.weights / "current.json").write_text('{"architecture": "2x32"}')
    folder.config.write_text(to_toml(ServerConfig(net="tiny", port=7000, gpus="cpu", seed=5)))
    for settings in (RunConfig(run="chess-tiny", runs=tmp_path), RunConfig(net="tiny", runs=tmp_path)):
        found = basis_of(settings)
        server = served(found, tmp_path / "basis")
        own = server.self_play
        assert (server.net, server.run, own.history) == ("2x32", "chess-tiny", 8)
        assert own.search.selection == "puct"
        assert (server.port, server.gpus, server.seed) == (5600, "", 0), "not of the run, but of a machine"
    assert found.line(server) == (
        "chess-tiny goes on with its own settings: 2x32 network, history 8, puct, 800 simulations (--recipe "
        "and --net are for new runs)"
    )


def test_a_run_that_goes_on_for_some_minutes_has_a_rate_that_falls_over_all_of_them(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "chess-sparse")
    folder.create("chess", 1)
    folder.config.write_text(to_toml(ServerConfig(net="sparse")))
    begun = basis_of(RunConfig(runs=tmp_path, minutes=10, recipe="chess_sparse"))
    assert begun.settings.run == "chess_sparse", "a recipe that is named makes a run of its own"
    folder.trainer_config.write_text(to_toml(begun.trainer))
    # A start without minutes leaves the schedule; a start that was interrupted counts as far as it came.
    for row, minutes, falls in (
        *(("", 10.0, 10.0), ("{}", 5.0, 5.0), ('{"trainer/step": 9.0}', 5.0, 15.0)),
        *(('{"trainer/minutes": 4.0}', 10.0, 14.0), ('{"trainer/minutes": 4.0}', 0.0, 10.0)),
    ):
        folder.figures_log.write_text(f"{row}\n")
        found = basis_of(RunConfig(runs=tmp_path, minutes=minutes))
        assert found.goes_on
        assert found.trainer["optimizer"]["cosine_minutes"] == falls
        assert found.trainer["optimizer"]["batch"] == 1024
    folder.trainer_config.write_text("[optimizer]\ncosine_minutes = 0.0\n")  # begun without minutes
    found = basis_of(RunConfig(runs=tmp_path, minutes=5.0))
    assert "its learning rate does not fall" in found.line(served(found, tmp_path / "basis"))
    file = tmp_path / "trainer.toml"
    file.write_text("optimizer.cosine_steps = 500")
    found = basis_of(RunConfig(runs=tmp_path, minutes=5, trainer_config=file))
    served(found, tmp_path / "basis")  # the trainer refuses minutes beside the file's steps


def test_a_run_whose_settings_are_damaged_is_not_played_with_others(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "chess-sparse")
    folder.create("chess", 1)
    folder.config.write_text("net = ")
    with pytest.raises(Fatal, match=r"config.toml, with which the run goes on, cannot be read") as caught:
        basis_of(RunConfig(runs=tmp_path))
    assert caught.value.code == Exit.BAD_DATA
    # The advice in this message leads to a start of the same run with its own network and history.
    assert "give --run chess-sparse --recipe none" in str(caught.value)
    folder.weights.mkdir(exist_ok=True)
    (folder.weights / "current.json").write_text('{"architecture": "sparse"}')
    found = basis_of(RunConfig(run="chess-sparse", runs=tmp_path, recipe="none"))
    assert (found.recipe, served(found, tmp_path / "basis").self_play.history) == ("", 1)
    assert found.settings.net == "sparse"


def test_a_trainer_reads_all_that_a_recipe_gives_it(tmp_path: Path) -> None:
    for name in recipes.names():
        recipe = recipes.load(name)
        found = basis_of(RunConfig(recipe.game, runs=tmp_path, recipe=name, minutes=3))
        served(found, tmp_path / "basis")  # raises for a setting that a part refuses
