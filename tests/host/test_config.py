"""Settings: which source overrides which, and the messages about mistakes."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from changed_settings import self_play
from in_process import ends

from azselfplay.host import config
from azselfplay.host.config import load, to_toml, version, without_settings
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.flags import refuse_foreign_flags
from azselfplay.lab.azrun_config import RunConfig
from client.config import ClientConfig
from protocol.settings import Count, Fraction, SelfPlaySettings, settings_in
from server.config import ServerConfig
from trainer.config import TrainerConfig


@dataclass(frozen=True)
class Config:
    """Settings of the command under test."""

    server: str
    """Host of the server."""
    workers: Count = 1
    """Processes."""
    rate: Fraction = 0.5
    """Share."""
    runs: Path = Path("runs")
    """Folder."""
    key: Path | None = None
    """File."""
    fast: bool = False
    """Switch."""
    device: Literal["cpu", "remote"] = "remote"
    """Where networks run."""
    limit: int | None = None
    """At most."""
    self_play: SelfPlaySettings = field(default_factory=lambda: self_play(simulations=32))
    """How games are played."""


EXAMPLES = ("aztest --server a", "aztest --server b", "aztest --server c")


def settings(*argv: str) -> Config:
    return load(Config, list(argv), command="aztest", examples=EXAMPLES, description="Tests.")


def test_later_sources_override_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        'server = "file"\nworkers = 2\nrate = 1\n[self_play.search]\nsimulations = 64\nc_init = 2.0\n'
    )
    monkeypatch.setenv("AZ_WORKERS", "3")
    monkeypatch.setenv("AZ_SELF_PLAY_SEARCH_C_INIT", "3.5")
    monkeypatch.setenv("AZ_FAST", "true")
    config = settings(f"--config={file}", "--self-play.search.c-init", "4.5", "--device", "cpu")
    assert (config.server, config.workers, config.rate, config.fast) == ("file", 3, 1.0, True)
    assert (config.self_play.search.simulations, config.self_play.search.c_init) == (64, 4.5)
    assert (config.runs, config.device, config.limit) == (Path("runs"), "cpu", None)


def test_a_tilde_is_the_home_in_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path may also be in a setting of type text, with a mark."""
    (tmp_path / "settings.toml").write_text('server = "~"\nkey = "~/a.key"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    starts = "--self-play.start.positions=@~/a~b"
    config = settings(f"--config={tmp_path}/settings.toml", "--runs=~/runs", starts)
    assert (config.server, config.key, config.runs) == ("~", tmp_path / "a.key", tmp_path / "runs")
    assert config.self_play.start.positions == f"@{tmp_path}/a~b"


def test_defaults_hold_without_any_source() -> None:
    """These include defaults that a dataclass sets for a nested one."""
    assert settings("--server", "here").self_play.search.simulations == 32


def test_a_setting_in_the_file_of_a_run_that_this_version_no_longer_has_is_left_out(tmp_path, capsys) -> None:
    (tmp_path / "run.json").write_text("{}")
    path = tmp_path / "trainer.toml"
    path.write_text("workers = 5\nspeed = 9\n")
    assert settings("--config", str(path), "--server", "x").workers == 5
    assert "'speed' is no setting of this version" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worker = 2", "'worker' is not a setting; the nearest is 'workers'"),
        ("[self_play.search]\nsimulation = 2", "nearest is 'self_play.search.simulations'"),
        ('workers = "two"', "workers must be a whole number of at least 0, not 'two'"),
        ("workers = true", "workers must be a whole number"),
        ('device = "gpu"', "device must be one of 'cpu', 'remote'"),
        ('limit = "x"', "limit must be a whole number, not 'x'"),
        ("workers = -1", "workers must be a whole number of at least 0, not -1"),
        ("rate = nan", "rate must be a number from 0 to 1, not nan"),
        ("workers = ", "is not TOML"),
        ("AZ_WORKER=1", "AZ_WORKER is not a setting of aztest.*nearest is 'AZ_WORKERS'"),
        ("AZ_WORKERS=many", "AZ_WORKERS must be a whole number"),
        ("AZ_FAST=maybe", "true or false"),
        ("AZ_RATE=1.5", "AZ_RATE must be a number from 0 to 1, not '1.5'"),
        ("AZ_RUNS=", "AZ_RUNS must be a path, not ''"),
    ],
)
def test_mistakes_in_a_file_and_in_the_environment_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    """An unknown variable with our prefix is never ignored."""
    path = tmp_path / "bad.toml"
    if text.startswith("AZ_"):
        monkeypatch.setenv(*text.split("="))
    path.write_text("" if text.startswith("AZ_") else text)
    with ends(Exit.CONFIG, message.replace("[", r"\[")):
        settings("--config", str(path), "--server", "x")


def test_an_empty_text_for_a_path_gives_none_and_not_the_current_folder(monkeypatch, tmp_path) -> None:
    """Such as `${KEY:-}` in a file of Docker Compose."""
    monkeypatch.setenv("AZ_KEY", "")
    assert settings("--server", "x").key is None
    monkeypatch.delenv("AZ_KEY")
    (tmp_path / "empty.toml").write_text('key = ""\n')
    assert settings("--server", "x", "--config", str(tmp_path / "empty.toml")).key is None


def test_variables_that_are_exported_for_all_programs_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer's machine exports AZ_SERVER_KEY, and `azplay backup` on it has no such setting. Azure Batch
    has variables of its own, and AZ_CUDA_KERNELS is for evaluators, whoever starts them."""
    monkeypatch.setenv("AZ_BATCH_TASK_ID", "7")
    monkeypatch.setenv("AZ_SERVER_KEY", "x" * 40)
    monkeypatch.setenv("AZ_CUDA_KERNELS", "compile")
    assert settings("--server", "x").server == "x"


def test_a_missing_file_is_named() -> None:
    with pytest.raises(Fatal, match=r"no-such\.toml"):
        settings("--config", "no-such.toml")


def test_a_wrong_flag_exits_with_2_and_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        settings("--server", "x", "--worker", "3")
    assert caught.value.code == Exit.USAGE
    printed = capsys.readouterr().err
    assert "--workers" in printed
    assert "Traceback" not in printed


def test_a_flag_out_of_its_range_is_told_the_range() -> None:
    with ends(Exit.CONFIG, r"--rate must be a number from 0 to 1, not 2.0"):
        settings("--server", "x", "--rate", "2")
    with pytest.raises(Fatal, match=r"--self-play\.search.simulations must be a whole number from 1"):
        settings("--server", "x", "--self-play.search.simulations", "0")


def test_print_config_prints_a_file_that_gives_the_same_settings(tmp_path, capsys) -> None:
    flags = ("--server", 'a "quoted" host', "--workers", "5", "--self-play.search.simulations", "7")
    with pytest.raises(SystemExit) as caught:
        settings(*flags, "--print-config")
    assert caught.value.code == 0
    path = tmp_path / "printed.toml"
    path.write_text(capsys.readouterr().out)
    assert settings("--config", str(path)) == settings(*flags)
    assert tomllib.loads(to_toml(settings(*flags)))["self_play"]["search"]["simulations"] == 7


@dataclass(frozen=True)
class OfAGame:
    """Settings of a command that plays."""

    game: str = "go"
    """Its name."""
    board: str = ""
    """Its size."""


def test_a_group_of_another_program_names_that_program(tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text("[optimizer]\nlr = 1.0\n")
    with pytest.raises(Fatal, match=r"optimizer belongs to the trainer: .*--trainer-config"):
        settings("--config", str(tmp_path / "mixed.toml"), "--server", "x")


@pytest.mark.parametrize(
    ("command", "config_class", "others"),
    [
        ("azrun", RunConfig, (ServerConfig, ClientConfig, TrainerConfig)),
        ("azserver", ServerConfig, (ClientConfig, TrainerConfig)),
        ("azclient", ClientConfig, (ServerConfig, TrainerConfig)),
        ("python -m trainer", TrainerConfig, (ServerConfig, ClientConfig)),
    ],
)
def test_a_flag_of_another_program_names_the_way(
    command: str, config_class: type, others: tuple[type, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = {name for other in others for name in settings_in(other)} - set(settings_in(config_class))
    assert foreign
    for name in sorted(foreign):
        flag = "--" + name.replace("_", "-")
        with pytest.raises(SystemExit) as caught:
            refuse_foreign_flags(config_class, [flag, "2"], command)
        assert caught.value.code == Exit.USAGE
        told = capsys.readouterr().err
        way = r"-config FILE(.|\n)*" + name.rpartition(".")[2] + " = 2|did you mean --"
        assert re.search(way, told), flag


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        (
            "--self-play.search.c-init=2",
            "--server-config FILE, with a file of\n  [self_play.search]\n  c_init = 2\n",
        ),
        ("--trainer.optimizer.lr=2", "--trainer-config FILE, with a file of\n  [optimizer]\n  lr = 2\n"),
        ("--self-play.search.cpuct", "self_play belongs to azserver, whose file azrun takes as --server"),
    ],
)
def test_azrun_shows_the_file_for_a_flag_of_a_part(flag: str, told: str, capsys) -> None:
    with pytest.raises(SystemExit):
        load(RunConfig, [flag], command="azrun", examples=EXAMPLES)
    assert told in capsys.readouterr().err


def test_a_game_without_its_flag_is_told_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        load(OfAGame, ["tic_tac_toe"], command="aztest", examples=EXAMPLES)
    assert caught.value.code == Exit.USAGE
    assert "did you mean `aztest --game tic_tac_toe`?" in capsys.readouterr().err


def test_the_size_of_the_board_becomes_part_of_the_games_name() -> None:
    """No other code needs to know the size. A game with one board refuses it, with exit code CONFIG."""

    def of(*argv: str) -> OfAGame:
        return load(OfAGame, list(argv), command="aztest", examples=EXAMPLES)

    assert of("--board", "9") == OfAGame("go_9x9")
    assert of("--game", "dots_and_boxes", "--board", "2x4") == OfAGame("dots_and_boxes_2x4")
    assert of() == OfAGame()
    with ends(Exit.CONFIG, "--board: chess has one board only"):
        of("--game", "chess", "--board", "9")


def test_children_do_not_inherit_settings() -> None:
    """They get their settings as flags; the folder of the compile cache is not a setting."""
    environment = {"AZ_WORKERS": "3", "AZ_JIT_CACHE": "/x", "PATH": "/bin"}
    assert without_settings(environment) == {"AZ_JIT_CACHE": "/x", "PATH": "/bin"}


def test_a_version_ends_with_a_hash_that_tells_other_sources_apart(tmp_path: Path, monkeypatch) -> None:
    def seen() -> str:
        version.cache_clear()
        return version().partition("+")[2]

    monkeypatch.setattr(config, "__file__", str(tmp_path / "azselfplay" / "host" / "config.py"))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "a.py").write_text("a = 1\n")
    one = seen()
    assert seen() == one
    (tmp_path / "net" / "a.py").write_text("a = 2\n")
    assert seen() != one
    version.cache_clear()
