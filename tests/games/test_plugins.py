"""Games of other packages: found by entry point, played by real processes, and harmless when broken."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from azselfplay.games import get_game
from azselfplay.games import names as plugins
from azselfplay.games.conformance import CHECKS
from azselfplay.games.game_history import replay
from azselfplay.games.jit import foreign_key
from azselfplay.games.names import is_game, listed
from azselfplay.games.playouts import random_games
from azselfplay.play.check_game import fault_of
from server.config import ServerConfig
from server.preparation import opened_run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "your_own_game"

pytestmark = pytest.mark.timeout(1200)


OLD = """
from dataclasses import replace
from avoid_three import GAME

def game(name, **rules):
    return replace(GAME, name=name, rules=replace(GAME.rules, **rules))

old_end = game("old_end", end_reason=lambda positions, n, legal_count: 0)
old_wins = game("old_wins", maybe_wins=lambda positions, n: True)
"""
"""Games whose rules have the arguments of an older azselfplay."""


def install(folder: Path, name: str, points: str) -> None:
    """Write a package's metadata as pip does; they are enough for an entry point."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[azselfplay.games]\n{points}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder of packages with the example and with broken ones."""
    shutil.copy(EXAMPLE / "avoid_three.py", tmp_path)
    install(tmp_path, "avoid-three", "avoid_three = avoid_three:GAME")
    (tmp_path / "broken_game.py").write_text("import a_package_that_nobody_has\n")
    (tmp_path / "old_game.py").write_text(OLD)
    install(
        tmp_path,
        "broken-game",
        "ludo = broken_game:GAME\nno_game = json:dumps\nother_name = avoid_three:GAME\n"
        "old_end = old_game:old_end\nold_wins = old_game:old_wins\navoid-three = avoid_three:GAME",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.entry_points_by_name.cache_clear()
    yield tmp_path
    plugins.entry_points_by_name.cache_clear()
    sys.modules.pop("avoid_three", None)


def test_a_game_of_another_package_is_found_by_its_name(packages: Path) -> None:
    game = get_game("avoid_three")
    assert (game.name, game.actions) == ("avoid_three", 16)
    assert is_game("avoid_three")
    assert "of other packages: avoid-three, avoid_three, ludo" in listed()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ludo", "importing broken_game: ModuleNotFoundError: No module named 'a_package_that_nobody_has'"),
        ("no_game", "json:dumps is a function, not an azselfplay.games.spec.Game"),
        ("other_name", "its entry point is called 'other_name', its game 'avoid_three'"),
        ("avoid-three", "write its name with at most 40 of a-z, 0-9 and _, a letter first"),
        ("old_end", "the last argument of its end_reason is 'legal_count', but has to be `root`"),
        ("old_wins", "the last argument of its maybe_wins is 'n', but has to be `found`"),
    ],
)
def test_a_broken_one_names_its_package_and_the_reason(packages: Path, name: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"the game '{name}' of the package broken-game 1.0") as caught:
        get_game(name)
    assert why in str(caught.value)
    assert get_game("tic_tac_toe").name == "tic_tac_toe"


def test_a_copied_game_that_keeps_its_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be played by compiled code of the game that has this name."""
    monkeypatch.setitem(plugins.GAME_MODULES, "connect_five", "azselfplay.games.connect_four")
    with pytest.raises(ValueError, match="'connect_five' is called 'connect_four'"):
        get_game("connect_five")


def test_two_packages_with_one_name_are_both_named(packages: Path) -> None:
    install(packages, "second", "avoid_three = avoid_three:GAME.name")
    plugins.entry_points_by_name.cache_clear()
    with pytest.raises(ValueError, match=r"avoid-three 1\.0 and second 1\.0"):
        get_game("avoid_three")


def test_the_code_of_a_package_is_compiled_anew_when_any_file_of_it_changes(tmp_path: Path) -> None:
    package = tmp_path / "hexes"
    package.mkdir()
    for name in ("__init__", "rules"):
        (package / f"{name}.py").write_text("X = 1\n")
    files = {"hexes": package / "__init__.py", "hexes.rules": package / "rules.py"}
    keys = {foreign_key(module, str(file)) for module, file in files.items()}
    assert len(keys) == 1
    (package / "rules.py").write_text("X = 2\n")
    foreign_key.cache_clear()
    assert foreign_key("hexes", str(files["hexes"])) not in keys
    assert foreign_key("azselfplay.games.chess.rules", "play.py") == ""


def test_a_module_without_a_package_is_compiled_anew_when_one_beside_it_changes(tmp_path: Path) -> None:
    keys = []
    for changed in ("rules", "limits"):
        (tmp_path / f"{changed}.py").write_text("X = 1\n")
        foreign_key.cache_clear()
        keys.append(foreign_key("rules", str(tmp_path / "rules.py")))
    assert keys[0] != keys[1]


def test_the_example_ends_as_its_rules_say(packages: Path) -> None:
    history = replay(get_game("avoid_three"), "", ["1", "16", "2", "5", "3"])
    assert history.end_reason() == "three_in_a_row"
    assert history.outcome() == -1


def test_the_example_passes_the_checks_of_every_game(packages: Path) -> None:
    game = get_game("avoid_three")
    playouts = tuple(random_games(game, 4))
    faults = {check.__name__: fault_of(check, game, playouts) for check in CHECKS}
    assert faults == dict.fromkeys(faults, "")


def test_a_changed_package_is_told_once_to_a_run_that_began_before(packages: Path, caplog) -> None:
    """Games that the run has stored may break the new rules."""
    config, said = ServerConfig(game="avoid_three", runs=packages / "runs"), []
    for change in ("", "", "# changed\n", ""):
        with (packages / "avoid_three.py").open("a") as file:
            file.write(change)
        foreign_key.cache_clear()
        caplog.clear()
        with opened_run(config, 1, listens=False):
            said.append("the package of avoid_three has changed" in caplog.text)
    assert said == [False, False, True, False]


@pytest.mark.nightly
def test_azrun_plays_and_trains_the_example(packages: Path, tmp_path: Path) -> None:
    """Server, workers, client and trainer find it, each in its own process, and play with trained weights."""
    trainer = tmp_path / "trainer.toml"
    trainer.write_text("window.min_positions = 200\noptimizer.batch = 32\npublishing.seconds = 1.0\n")
    azrun = subprocess.Popen(
        [
            *(sys.executable, "-m", "azselfplay.lab.azrun", "--game", "avoid_three", "--simulations", "4"),
            *("--games", "16", "--runs", "runs", "--gpus", "cpu", "--trainer-config", str(trainer)),
        ],
        cwd=packages,
        env={**os.environ, "PYTHONPATH": f"{packages}:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        weights = packages / "runs" / "avoid_three-tiny" / "weights"
        while len(list(weights.glob("*.safetensors"))) < 3:
            assert azrun.poll() is None
            time.sleep(0.2)
        azrun.send_signal(signal.SIGINT)
        out, said = azrun.communicate()
    finally:
        azrun.kill()
    summary = json.loads(out.splitlines()[-1])
    assert azrun.returncode == 0
    assert summary["games"] > 0
    assert summary["steps"] > 0
    assert "play avoid_three-tiny" in said
