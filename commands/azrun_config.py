"""Settings of `azrun`, and the three command lines they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from games import GAME_NAMES, get_game
from games.names import DEFAULT_GAME
from protocol.settings import Amount, Count, Port, Simulations
from runtime.exits import Exit, Fatal
from runtime.listening import check_base_port
from runtime.processes import python_module
from runtime.runs import RunFolder, is_locked

if TYPE_CHECKING:
    from server.config import ServerConfig

Commands = Mapping[str, Sequence[str]]
"""Command lines by name: server, trainer, then the player."""


TRAINER_GRACE = 30.0
"""Seconds that the trainer gets for a clean end: the last games, the last weights, a checkpoint."""


@dataclass(frozen=True)
class RunConfig:
    """The whole loop on this machine: azserver, azclient and the trainer."""

    game: str = DEFAULT_GAME
    """The game to play; the names are at the top of `--help`."""
    board: str = ""
    """Board size, such as 9 or 2x4, of a game that has several; empty: the size in the game's name, or the
    usual one."""
    recipe: str = ""
    """Recipe of a new run: all settings that follow, and those of the parts, where no flag, variable or file
    says otherwise. Empty: the best that we know for the game, chosen by whether there is a GPU; `list` prints
    all; a file such as mine.toml; `none`: the programs' own settings. docs/learning.md."""
    minutes: Amount = 0.0
    """Minutes to run; 0 runs until Ctrl-C. Compiling the search counts: it takes up to a minute the first
    time that a game is played on this machine."""
    repeatable: Count = 0
    """Games of a round: the whole run in one process, on the CPU, so many games and then the training steps
    that they allow, again and again. It gives the same bits every time, however often it was stopped or
    killed, on the same machine with the same torch. `--minutes` then ends with a whole round. 0: no rounds,
    games and training side by side."""
    run: str = ""
    """Name of the run; empty is GAME-NET, or the name of the recipe if `--recipe` is given. A run that exists
    is continued with its own network and settings."""
    runs: Path = Path("runs")
    """Folder of all runs."""
    port: Port = 0
    """Base port (it and the next one are used); 0 finds a free one."""
    net: str = ""
    """The network of a new run: a preset such as sparse, tiny, small, medium, alphazero, or sizes such as
    4x64 (blocks x channels), 6x96se (with squeeze-excitation); docs/networks.md has all. Empty: the
    recipe's, or tiny."""
    gpus: str = ""
    """GPUs of the evaluators, as for azserver; empty: all GPUs, or the CPU if there is none."""
    web: Port = 0
    """Port of the web pages about this run, for browsers on this machine (docs/web.md); 0: none."""
    simulations: Simulations | None = None
    """New simulations per move; unset: the recipe's, or 32 (AlphaZero: 800; small because this is for one
    machine)."""
    games: Count | None = None
    """Games in flight per worker process; 0: as many as the devices need for full batches; unset: the
    recipe's, or 0."""
    workers: Count | None = None
    """Worker processes of azserver; unset: most cores when GPUs evaluate or the network is `sparse`, one
    core in four otherwise."""
    client_workers: Count | None = None
    """Worker processes of azclient; 0 starts no client. Unset: 0 with a recipe, unless azserver has no
    workers or the client's settings are given; otherwise 1."""
    client_device: str = "remote"
    """Where azclient evaluates: `remote` (by the server's evaluators), `cpu` (by a network in each of its
    processes), `cuda:N`. On two cores without a GPU, `--workers 0 --client-workers 2 --client-device cpu`
    saves the transport; azserver does not count these evaluations."""
    server_config: Path | None = None
    """TOML file for azserver. It counts more than the recipe. azrun passes its own game, net and gpus as
    flags, and simulations, games and workers if given; flags take precedence over the file."""
    client_config: Path | None = None
    """TOML file for azclient."""
    trainer_config: Path | None = None
    """TOML file for the trainer."""


def run_name(settings: RunConfig) -> str:
    return settings.run or f"{settings.game}-{settings.net}"


def for_one_process(settings: RunConfig) -> RunConfig:
    """Return the settings of a repeatable run, which has no other processes or devices. Raises Fatal(CONFIG)
    if there are settings of such."""
    for name in ("gpus", "web", "port", "workers", "client_workers", "client_device", "client_config"):
        value = getattr(settings, name)
        if value != getattr(RunConfig, name) and (name, value) != ("gpus", "cpu"):
            raise Fatal(
                f"--{name.replace('_', '-')} has no meaning with --repeatable, which is one process on the "
                "CPU: leave out one of the two",
                Exit.CONFIG,
            )
    return replace(settings, gpus="cpu", client_workers=0)


def make_commands(settings: RunConfig, port: int, basis: Path | None = None) -> Commands:
    """Server, trainer and, if wanted, the client, in this order. `basis`: folder with their lowest settings
    (`Basis.write`)."""
    commands = {
        "server": _server(settings, port, basis),
        "trainer": (
            python_module(
                "trainer",
                *_config_flags(basis and basis / "trainer.toml", settings.trainer_config),
                *("--server", f"127.0.0.1:{port}", "--run", run_name(settings), "--runs", str(settings.runs)),
            )
        ),
    }
    if settings.client_workers:
        commands["client"] = _client(settings, port)
    return commands


def _server(settings: RunConfig, port: int, basis: Path | None) -> list[str]:
    return python_module(
        "server.main",
        *_config_flags(basis and basis / "server.toml", settings.server_config),
        *("--game", settings.game, "--net", settings.net, "--gpus", settings.gpus),
        *_flag("--workers", settings.workers),
        *_flag("--games", settings.games),
        *_flag("--self-play.search.simulations", settings.simulations),
        *("--port", str(port), "--run", run_name(settings), "--runs", str(settings.runs)),
        *("--trainer-grace", str(TRAINER_GRACE), "--web", str(settings.web)),
    )


def _client(settings: RunConfig, port: int) -> list[str]:
    return python_module(
        "client.main",
        *_config_flags(settings.client_config),
        *("--server", f"127.0.0.1:{port}", "--device", settings.client_device, "--max-wait", "0"),
        *("--workers", str(settings.client_workers), "--games", str(settings.games or 0)),
        *("--spool", str(RunFolder(settings.runs, run_name(settings)).spool / "client")),
    )


def _config_flags(*files: Path | None) -> list[str]:
    return [word for file in files if file is not None for word in ("--config", str(file))]


def _flag(name: str, value: int | None) -> list[str]:
    return [] if value is None else [name, str(value)]


def check_parts(commands: Commands) -> ServerConfig:
    """Read the settings of each part as the part itself will, with its file, and return those of azserver.
    Raises Fatal or SystemExit as the parts would."""
    from client.main import load as client
    from server.main import load as server
    from trainer.__main__ import load as trainer

    readers: dict[str, Callable[[Sequence[str], Mapping[str, str]], object]] = {}
    readers |= {"trainer": trainer, "client": client}
    flags = {name: argv[len(python_module("")) :] for name, argv in commands.items()}
    served = server(flags.pop("server"), {})  # parts get no settings from the environment
    for name, words in flags.items():
        readers[name](words, {})
    return served


def check(settings: RunConfig) -> None:
    """Raise Fatal for wrong settings, before anything is started."""
    from net.architectures.registry import check_name

    try:
        check_name(settings.net or "tiny")
    except ValueError as error:
        raise Fatal(f"--net: {error}", Exit.CONFIG) from None
    try:
        if settings.game not in GAME_NAMES:  # only other games need to be imported here
            get_game(settings.game)
    except ValueError as error:
        raise Fatal(f"--game: {error}", Exit.CONFIG) from None
    folder = RunFolder(settings.runs, run_name(settings))
    if folder.about.exists() and folder.describe()["game"] != settings.game:
        raise Fatal(
            f"run {folder.name!r} in {folder.path} plays {folder.describe()['game']}, not {settings.game}; "
            "choose another --run name",
            Exit.BAD_DATA,
        )
    for program in ("azserver", "trainer"):
        if is_locked(folder.lock_of(program)):
            raise Fatal(
                f"run {folder.name!r} in {folder.path} is in use by another {program}: stop that one, or "
                "give another --run name",
                Exit.TRY_AGAIN,
            )
    if settings.port:
        check_base_port("127.0.0.1", settings.port)
