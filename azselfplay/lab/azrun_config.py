"""Settings of `azrun`: its flags, the basis of a run, and the three command lines that result from them.

The basis is a recipe, or the settings of the run itself if the run exists. The basis has the lowest priority:
files, environment and flags count more. A new run takes the best recipe that is known for its game on this
kind of machine. The parts read their command lines as if a person had typed them, so `check_parts` can find
errors before anything starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from azselfplay.games import GAME_NAMES, get_game
from azselfplay.games.names import DEFAULT_GAME, near
from azselfplay.host import config
from azselfplay.host.config import flattened, nested, to_toml
from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.host.hardware import may_have_gpus, usable_cores
from azselfplay.host.ports import ANYWHERE, check_base_port
from azselfplay.host.processes import gpus_of_torch, python_module
from azselfplay.host.reading import read_toml
from azselfplay.host.runs import RunFolder, is_locked, newest_row, shown_settings
from azselfplay.host.view import aligned
from azselfplay.lab.experiments import recipe as recipes
from azselfplay.link.keys import keys_folder
from net.architectures.registry import check_name, is_sparse
from net.architectures.registry import named as architecture_of
from protocol.settings import Amount, Count, Port, Simulations, settings_in
from server.config import NO_GPUS, ServerConfig
from trainer.config import TrainerConfig

EXAMPLES = (
    "azrun                                     # chess with the recipe for this machine, until Ctrl-C",
    "azrun --game go --board 9 --minutes 5     # five minutes of Go on 9 x 9, then one line of JSON",
    "azrun --run chess-1 --net small --simulations 200 --gpus 0,1",
    "azrun --game connect_four --repeatable 200   # slower, but the same bits every time",
)

LIST, NONE = "list", "none"
"""Words for `--recipe` that do not name a recipe."""

NET, SIMULATIONS = "tiny", 32
"""Network and simulations of a run without a recipe."""

KEPT = {"self_play", "gate", "games", "workers"}
KEPT_BY_TRAINER = {
    "optimizer",
    "loss",
    "window",
    "samples",
    "publishing",
    "cpu_threads",
    "archive",
    "keep_games",
}
"""Settings of the trainer that a continued run keeps. All others concern machines and addresses."""

Commands = Mapping[str, Sequence[str]]
"""Command lines by name: server, trainer, then the player."""

TRAINER_GRACE = 30.0
"""Seconds that the trainer gets for a clean end: storing the last games, the last weights, and a
checkpoint."""


@dataclass(frozen=True)
class RunConfig:
    """Starts self-play and training on this machine, with one command."""

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
    """Minutes to run; 0 runs until Ctrl-C. Compiling the search counts: it takes up to two minutes the first
    time that a game is played on this machine."""
    repeatable: Count = 0
    """Runs everything in one process on the CPU, in rounds: this many games, then the training steps that
    they allow. It gives the same bits on the same machine with the same torch, however often it was killed,
    and ends with a whole round. 0: games and training side by side."""
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
    recipe's; without one sparse on a CPU if the game has features for it, else tiny."""
    gpus: str = ""
    """GPUs of the evaluators, as for azserver; empty: all GPUs, or the CPU if there is none. `none`: a client
    plays, with evaluators of its own."""
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
    """Where azclient evaluates: `remote` (by the server's evaluators), or by evaluators of its own: `cpu`,
    `cuda:0,cuda:1`. azserver does not count their evaluations."""
    server_config: Path | None = None
    """TOML file for azserver. It counts more than the recipe. azrun passes its own game, net and gpus as
    flags, and simulations, games and workers if given; flags take precedence over the file."""
    client_config: Path | None = None
    """TOML file for azclient."""
    trainer_config: Path | None = None
    """TOML file for the trainer."""


def load(argv: Sequence[str] | None = None) -> RunConfig:
    """Return the settings of azrun. `argv` is that of `config.load`."""
    return config.load(RunConfig, argv, command="azrun", examples=EXAMPLES)


def run_name(settings: RunConfig) -> str:
    return settings.run or f"{settings.game}-{settings.net}"


def for_one_process(settings: RunConfig) -> RunConfig:
    """Return the settings of a repeatable run, which is one process on the CPU. Raises Fatal(CONFIG) for
    settings that concern other processes or devices."""
    for name in ("gpus", "web", "port", "workers", "client_workers", "client_device", "client_config"):
        value = getattr(settings, name)
        # Refuse only settings that differ from the default. `--gpus cpu` is allowed, because the run uses the
        # CPU anyway.
        if value != getattr(RunConfig, name) and (name, value) != ("gpus", "cpu"):
            raise Fatal(
                f"--{name.replace('_', '-')} has no meaning with --repeatable, which is one process on the "
                "CPU: leave out one of the two",
                Exit.CONFIG,
            )
    return replace(settings, gpus="cpu", client_workers=0)


def check(settings: RunConfig) -> None:
    """Raise Fatal for wrong settings, before anything is started."""
    from azselfplay.store.reader import game_of  # imports numpy

    with as_fatal(ValueError, Exit.CONFIG, "--net: "):
        check_name(settings.net or NET)
    with as_fatal(ValueError, Exit.CONFIG, "--game: "):
        if settings.game not in GAME_NAMES:  # only other games need to be imported here
            get_game(settings.game)
    folder = RunFolder(settings.runs, run_name(settings))
    made = folder.about.exists() or folder.games.exists()
    if made and (game := game_of(folder)) != settings.game:
        raise Fatal(
            f"run {folder.name!r} in {folder.path} plays {game}, not {settings.game}; choose another --run "
            "name",
            Exit.BAD_DATA,
        )
    # Only look at the locks here: the programs themselves take them.
    for program in ("azserver", "trainer"):
        if is_locked(folder.lock_of(program)):
            raise Fatal(
                f"run {folder.name!r} in {folder.path} is in use by another {program}: stop that one, or "
                "give another --run name",
                Exit.TRY_AGAIN,
            )
    if settings.port:
        check_base_port("127.0.0.1", settings.port)


# ---- What a run is based on ---------------------------------------------------------------------


@dataclass(frozen=True)
class Basis:
    """The settings of lowest priority in a run, and where they come from."""

    settings: RunConfig
    """azrun's own settings, with name, network and number of clients decided."""
    server: Mapping[str, Any]
    trainer: Mapping[str, Any]
    recipe: str = ""
    """The name of the recipe, if there is one."""
    goes_on: bool = False
    """Whether the run exists, so that its own settings are the basis."""

    def write(self, folder: Path) -> None:
        """Write a settings file for each part, as `make_commands` takes them."""
        (folder / "server.toml").write_text(to_toml(self.server))
        (folder / "trainer.toml").write_text(to_toml(self.trainer))

    def line(self, server: ServerConfig) -> str:
        """Return one line about the run that begins. `server`: azserver's settings, including files and
        flags."""
        played, name = server.self_play, run_name(self.settings)
        history = f"history {played.history}, " if self.goes_on else ""
        search = f"{played.search.selection}, {played.search.simulations} simulations"
        what = f"{server.net} network, {history}{search}"
        if self.goes_on:
            optimizer = self.trainer.get("optimizer", {})
            falls = optimizer.get("cosine_minutes") or optimizer.get("cosine_steps")
            if self.settings.minutes and not falls and self.settings.trainer_config is None:
                what += "; its learning rate does not fall"
            return f"{name} goes on with its own settings: {what} (--recipe and --net are for new runs)"
        if self.recipe:
            why = f"recipe {self.recipe}; --recipe list shows others"
        elif self.settings.recipe == NONE:
            why = "no recipe: the programs' own settings"
        else:
            why = "the programs' own settings; --recipe list shows recipes of other games"
        cores = usable_cores()
        machine = f"{cores} core{'' if cores == 1 else 's'}"
        if on_gpu(self.settings):
            machine = f"GPUs and {machine}"
        return f"{self.settings.game} on {machine}: {what} ({why})"


def basis_of(settings: RunConfig) -> Basis:
    """Choose the recipe of a new run; an existing run goes on with its own settings, unless `--recipe` is
    `none`. Raises Fatal(CONFIG) for a recipe that does not exist or is for another game, Fatal(BAD_DATA) for
    a run whose settings cannot be read."""
    named = _named_recipe(settings)
    if settings.gpus.strip() == NO_GPUS:
        settings = _played_by_client(settings)
    if settings.run and _exists(settings):
        return _of_run(settings)
    server = _in_file(settings.server_config)
    has_weights = "weights" in flattened(server)
    # A file that starts from the weights of another run replaces the default recipe.
    recipe = named if settings.recipe or has_weights else _default_recipe(settings)
    default = recipe.net if recipe else _default_net(settings, has_weights)
    net = settings.net or str(server.get("net", "")) or default
    # A run of a named recipe is named after it, so that `--recipe NAME` alone continues the run.
    settings = replace(settings, net=net, run=settings.run or (named.name if named else ""))
    if _exists(settings):  # asked again, because only now the name of the run is known
        return _of_run(settings)
    is_alone = recipe is not None or is_sparse(net)
    settings = replace(settings, client_workers=_client_workers(settings, {}, is_alone=is_alone))
    basis = _of_recipe(settings, recipe) if recipe else _without_recipe(settings)
    # The trainer goes on with the weights with which azserver begins.
    return replace(basis, trainer={**basis.trainer, "weights": "server"}) if has_weights else basis


def _named_recipe(settings: RunConfig) -> recipes.Recipe | None:
    """Return the recipe that `--recipe` names, if it names one."""
    name = settings.recipe
    if name in ("", NONE):
        return None
    if name not in recipes.names() and not name.endswith(".toml"):
        meant = near(name, recipes.names())
        hint = f"; the nearest is {meant!r}" if meant else ""
        raise Fatal(f"--recipe: there is no recipe {name!r}{hint}; --recipe list shows all", Exit.CONFIG)
    recipe = recipes.load(name)
    if recipe.game not in recipes.games_of(settings.game):
        raise Fatal(
            f"--recipe {name} is for {recipe.game}, not for {settings.game}: give --game {recipe.game}, or "
            "another recipe (--recipe list)",
            Exit.CONFIG,
        )
    return recipe


def _default_recipe(settings: RunConfig) -> recipes.Recipe | None:
    """Return the best recipe that is known for the game on this kind of machine."""
    name = recipes.default_for(settings.game, has_gpu=on_gpu(settings))
    return recipes.load(name) if name else None


def _default_net(settings: RunConfig, has_weights: bool) -> str:
    """Return the network of a run without a recipe: on a CPU, where the game has features, the one for CPUs.
    Weights, and `--recipe none`, are given by people who know what they want."""
    if settings.recipe or has_weights or on_gpu(settings):
        return NET
    with as_fatal(ValueError, Exit.CONFIG, "--game: "):
        return "sparse" if get_game(settings.game).sparse else NET


def _played_by_client(settings: RunConfig) -> RunConfig:
    """Return the settings of a run without evaluators of azserver: no workers, and a client with its own."""
    device = settings.client_device
    if device == "remote":
        device = "auto" if has_gpu("") else "cpu"
    return replace(settings, workers=settings.workers or 0, client_device=device)


def _of_recipe(settings: RunConfig, recipe: recipes.Recipe) -> Basis:
    server, trainer = recipe.parts
    if settings.repeatable:  # minutes have no part in it, but steps have
        trainer = {**trainer, "optimizer": {**trainer.get("optimizer", {}), "cosine_minutes": 0.0}}
    else:
        trainer = falling(trainer, 0.0 if _falls_by_steps(settings) else settings.minutes)
    return Basis(settings, server, trainer, recipe.name)


def _without_recipe(settings: RunConfig) -> Basis:
    played: dict[str, Any] = {"search": {"simulations": SIMULATIONS}}
    folder = RunFolder(settings.runs, run_name(settings))
    # With `none` the run may exist: its network stays, and takes the history with which it was made.
    if folder.about.exists():
        played["history"] = folder.describe()["history"]
        settings = replace(settings, net=_network_of(folder) or settings.net)
    return Basis(settings, {"self_play": played}, {})


def _in_file(path: Path | None) -> dict[str, Any]:
    """Return the settings in a part's file, as far as it can be read: the part itself reports errors in it
    (`check_parts`)."""
    return shown_settings(path) if path else {}


def _falls_by_steps(settings: RunConfig) -> bool:
    """Return whether the trainer's file has `cosine_steps`, which the trainer refuses together with
    minutes."""
    return bool(flattened(_in_file(settings.trainer_config)).get("optimizer.cosine_steps"))


def falling(trainer: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    """Return the trainer's settings with a learning rate that falls over `minutes`, if it falls at all. For a
    run without end (0) it does not fall."""
    optimizer = dict(trainer.get("optimizer", {}))
    if not optimizer.pop("cosine_steps", 0) and not optimizer.get("cosine_minutes"):
        return dict(trainer)
    return {**trainer, "optimizer": {**optimizer, "cosine_minutes": float(minutes)}}


def _client_workers(settings: RunConfig, server: Mapping[str, Any], *, is_alone: bool) -> int:
    """Return the number of azclient's processes. `server`: azserver's settings of lowest priority.
    `is_alone`: whether azserver's workers alone use the machine best, as in the measurements of recipes, and
    where they evaluate positions themselves."""
    if settings.client_workers is not None:
        return settings.client_workers
    workers = settings.workers
    if workers is None:
        workers = {**server, **_in_file(settings.server_config)}.get("workers")
    asked = workers == 0 or settings.client_config or settings.client_device != "remote"
    return 0 if is_alone and not asked else 1


def _exists(settings: RunConfig) -> bool:
    return settings.recipe != NONE and RunFolder(settings.runs, run_name(settings)).about.exists()


def _of_run(settings: RunConfig) -> Basis:
    """Return the settings with which an existing run was last started."""
    folder = RunFolder(settings.runs, run_name(settings))
    server = _stored(folder.config, ServerConfig, KEPT | {"net"})
    trainer = _stored(folder.trainer_config, TrainerConfig, KEPT_BY_TRAINER)
    # If the run's folder does not say, azrun's own default counts.
    server = {"self_play.search.simulations": SIMULATIONS, **server}
    server["self_play.history"] = folder.describe()["history"]
    server["net"] = _network_of(folder) or server.get("net") or settings.net or NET
    settings = replace(settings, run=folder.name, net=server["net"])
    # If the run had a client, games may wait in the client's spool.
    is_alone = folder.config.exists() and not (folder.spool / "client").exists()
    settings = replace(settings, client_workers=_client_workers(settings, server, is_alone=is_alone))
    if before := trainer.get("optimizer.cosine_minutes"):
        if settings.repeatable or _falls_by_steps(settings):
            trainer["optimizer.cosine_minutes"] = 0.0
        elif settings.minutes:
            # An earlier start may have been interrupted, so its minutes of training count, not those that it
            # was given. Figures of older versions lack them.
            row = newest_row(folder)
            trained = row.get("trainer/minutes", before if row else 0.0)
            trainer["optimizer.cosine_minutes"] = trained + settings.minutes
    return Basis(settings, nested(server), nested(trainer), goes_on=True)


def _network_of(folder: RunFolder) -> str:
    """Return the network with which a run plays, if there is one and its architecture has a name in this
    version; else ""."""
    with suppress(ValueError):
        check_name(name := folder.read_architecture())
        return name
    return ""


def _stored(path: Path, kind: type, kept: Set[str]) -> dict[str, Any]:
    """Return the settings that a program wrote into a run's folder, by path; settings that no longer exist
    are left out. Raises Fatal(BAD_DATA) if the file cannot be read."""
    try:
        found = flattened(read_toml(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Fatal(
            f"{path}, with which the run goes on, cannot be read ({error}): restore it from a backup, or "
            f"give --run {path.parent.name} --recipe none for the programs' own settings",
            Exit.BAD_DATA,
        ) from error
    known = settings_in(kind)
    return {name: one for name, one in found.items() if name in known and name.partition(".")[0] in kept}


def on_gpu(settings: RunConfig) -> bool:
    """Return whether a GPU evaluates: azserver's, or the client's if azserver has no evaluators."""
    return has_gpu(settings.client_device if settings.gpus.strip() == NO_GPUS else settings.gpus)


@cache
def has_gpu(devices: str) -> bool:
    """Return whether `devices` name a GPU; if they are `auto` or empty, whether torch can use any here."""
    # If devices are named, the machine need not be examined.
    words = {word.strip() for word in devices.split(",") if word.strip()} - {"auto"}
    if words:
        return words != {"cpu"}
    if not may_have_gpus():
        return False
    found = gpus_of_torch()
    return found is not None and bool(found.usable)


def shown_recipes() -> str:
    """Return all recipes as text for people, one per line."""
    on = {"cpu": "default without a GPU", "gpu": "default with a GPU", "": ""}
    rows = [(name, game, on[default], title) for game, name, default, title in recipes.listed_recipes()]
    return aligned([("recipe", "game", "machine", "what it is"), *rows], left=4)


# ---- Command lines ------------------------------------------------------------------------------


def make_commands(settings: RunConfig, port: int, basis: Path | None = None) -> Commands:
    """Return the commands of server, trainer and, if wanted, the client, in this order. `basis`: folder with
    their settings of lowest priority (`Basis.write`)."""
    run, runs, address = run_name(settings), str(settings.runs), f"127.0.0.1:{port}"
    # Leave the other settings to azserver, which knows what the machine can do.
    given = {
        "--workers": settings.workers,
        "--games": settings.games,
        "--self-play.search.simulations": settings.simulations,
    }
    commands = {
        "server": python_module(
            "server.main",
            *_config_flags(basis and basis / "server.toml", settings.server_config),
            *("--game", settings.game, "--net", settings.net, "--gpus", settings.gpus),
            *(word for flag, value in given.items() if value is not None for word in (flag, str(value))),
            *("--port", str(port), "--run", run, "--runs", runs),
            # At the end, the server waits this long for the trainer's last weights.
            *("--trainer-grace", str(TRAINER_GRACE), "--web", str(settings.web)),
        ),
        "trainer": python_module(
            "trainer",
            *_config_flags(basis and basis / "trainer.toml", settings.trainer_config),
            *("--server", address, "--run", run, "--runs", runs),
        ),
    }
    if settings.client_workers:
        commands["client"] = python_module(
            "client.main",
            *_config_flags(settings.client_config),
            # The client waits without limit, because azrun ends it.
            *("--server", address, "--device", settings.client_device, "--max-wait", "0"),
            *("--workers", str(settings.client_workers), "--games", str(settings.games or 0)),
            *("--spool", str(RunFolder(settings.runs, run).spool / "client")),
        )
    return commands


def _config_flags(*files: Path | None) -> list[str]:
    return [word for file in files if file is not None for word in ("--config", str(file))]


def check_parts(commands: Commands) -> tuple[ServerConfig, float]:
    """Read the settings of each part as the part itself will, with its file. Return those of azserver, and
    the longest `drain` of the clients. Raises Fatal or SystemExit as the parts would."""
    from client.main import load as client
    from server.config import load as server
    from trainer.__main__ import load as trainer

    flags = {name: argv[len(python_module("")) :] for name, argv in commands.items()}
    served = server(flags["server"], {})  # parts get no settings from the environment
    trained = trainer(flags["trainer"], {})
    with as_fatal(ValueError, Exit.CONFIG, "trainer: --loss.heads: "):
        # The trainer itself learns the network only later, from the server.
        architecture_of(served.net).with_heads(trained.loss.head_weights)
    clients = [client(words, {}) for name, words in flags.items() if name.startswith("client")]
    return served, max((one.drain for one in clients), default=0.0)


def check_joining(server: ServerConfig, port: int) -> None:
    """Raise Fatal(CONFIG) if azrun's own parts, which dial this machine's `port` without keys, cannot join
    azserver."""
    dialled = server.port == port and server.listen in ("127.0.0.1", "localhost", *ANYWHERE)
    if not dialled or keys_folder(server.listen, server.keys, insecure=server.insecure) is not None:
        raise Fatal(
            "azrun's own parts cannot join an azserver with these `listen` and `keys`: leave both out of "
            "--server-config, or start the parts by hand (docs/many_machines.md)",
            Exit.CONFIG,
        )
