"""What a run of azrun is based on: a recipe, or the settings of the run itself if it exists.

These settings are below all others: files, environment and flags count more.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from commands.azrun_config import RunConfig, run_name
from experiments import recipe as recipes
from experiments.recipe import Recipe
from games.names import is_game, near, parts_of
from net.architectures.registry import check_name
from protocol.settings import settings_in
from runtime.config import flattened, nested, to_toml
from runtime.cores import usable_cores
from runtime.exits import Exit, Fatal
from runtime.gpu_drivers import may_have_gpus
from runtime.processes import python_module
from runtime.reading import read_json, read_toml
from runtime.runs import RunFolder, shown_settings
from runtime.text_table import aligned
from server.config import ServerConfig
from trainer.config import TrainerConfig

LIST, NONE = "list", "none"
"""Words for `--recipe` that are no recipes."""
NET, SIMULATIONS = "tiny", 32
"""Without a recipe."""
KEPT = {"self_play", "gate", "games", "workers"}
KEPT_BY_TRAINER = {"optimizer", "loss", "window", "samples", "publishing", "players", "cpu_threads"}
"""Settings with which a run goes on. The others are about machines and addresses."""


@dataclass(frozen=True)
class Basis:
    """The lowest settings of a run, and where they come from."""

    settings: RunConfig
    """azrun's own, with name, network and number of clients decided."""
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
        """What is begun, in one line. `server`: the settings with files and flags."""
        played, name = server.self_play, run_name(self.settings)
        history = f"history {played.history}, " if self.goes_on else ""
        search = f"{played.search.selection}, {played.search.simulations} simulations"
        what = f"{server.net} network, {history}{search}"
        if self.goes_on:
            return f"{name} goes on with its own settings: {what} (--recipe and --net are for new runs)"
        if self.recipe:
            why = f"recipe {self.recipe}; --recipe list shows others"
        elif self.settings.recipe == NONE:
            why = "no recipe: the programs' own settings"
        else:
            why = "the programs' own settings; --recipe list shows recipes of other games"
        return f"{self.settings.game} on {_machine(self.settings.gpus)}: {what} ({why})"


def basis_of(settings: RunConfig) -> Basis:
    """Choose the recipe of a new run; an existing run goes on with its own settings, unless `--recipe` is
    `none`. Raises Fatal(CONFIG) for a recipe that does not exist or is for another game, Fatal(BAD_DATA) for
    a run whose settings cannot be read."""
    named = _named(settings)
    if settings.run and _exists(settings):
        return _of_run(settings)
    server = shown_settings(settings.server_config) if settings.server_config else {}
    recipe = named
    asked = flattened(server)
    # A file that begins with the network of another run knows what it wants.
    if not settings.recipe and "weights" not in asked:
        found = recipes.default_for(settings.game, has_gpu=has_gpu(settings.gpus))
        recipe = recipes.load(found) if found else None
    net = settings.net or str(server.get("net", "")) or (recipe.net if recipe else NET)
    settings = replace(settings, net=net, run=settings.run or (named.name if named else ""))
    if _exists(settings):
        return _of_run(settings)
    settings = replace(settings, client_workers=_client_workers(settings, is_alone=recipe is not None))
    if recipe is None:
        return Basis(settings, {"self_play": {"search": {"simulations": SIMULATIONS}}}, {})
    of_server, of_trainer = recipe.parts
    # A repeatable run does not go by the clock.
    of_trainer = _falling(of_trainer, 0.0 if settings.repeatable else settings.minutes)
    of_file = shown_settings(settings.trainer_config) if settings.trainer_config else {}
    if flattened(of_file).get("optimizer.cosine_steps"):
        of_trainer = _falling(of_trainer, 0.0)
    return Basis(settings, of_server, of_trainer, recipe.name)


def _named(settings: RunConfig) -> Recipe | None:
    """The recipe that `--recipe` names."""
    name = settings.recipe
    if name in ("", NONE):
        return None
    if name not in recipes.names() and not name.endswith(".toml"):
        meant = near(name, recipes.names())
        hint = f"; the nearest is {meant!r}" if meant else ""
        raise Fatal(f"--recipe: there is no recipe {name!r}{hint}; --recipe list shows all", Exit.CONFIG)
    recipe = recipes.load(name)
    base = parts_of(settings.game)[0] if is_game(settings.game) else settings.game
    if recipe.game not in (settings.game, base):
        raise Fatal(
            f"--recipe {name} is for {recipe.game}, not for {settings.game}: give --game {recipe.game}, or "
            "another recipe (--recipe list)",
            Exit.CONFIG,
        )
    return recipe


def _falling(trainer: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    """The trainer's settings with a learning rate that falls over `minutes`, if it falls at all. Without an
    end (0) it does not."""
    optimizer = dict(trainer.get("optimizer", {}))
    if not optimizer.pop("cosine_steps", 0) and not optimizer.get("cosine_minutes"):
        return dict(trainer)
    return {**trainer, "optimizer": {**optimizer, "cosine_minutes": float(minutes)}}


def _client_workers(settings: RunConfig, *, is_alone: bool) -> int:
    """Processes of azclient. `is_alone`: whether azserver's own workers use the machine best alone, as
    recipes are measured."""
    if settings.client_workers is not None:
        return settings.client_workers
    asked = settings.workers == 0 or settings.client_config or settings.client_device != "remote"
    return 0 if is_alone and not asked else 1


# ---- A run that exists ---------------------------------------------------------------------------


def _exists(settings: RunConfig) -> bool:
    return settings.recipe != NONE and RunFolder(settings.runs, run_name(settings)).about.exists()


def _of_run(settings: RunConfig) -> Basis:
    """The settings with which an existing run was started last."""
    folder = RunFolder(settings.runs, run_name(settings))
    server = _stored(folder.config, ServerConfig, KEPT | {"net"})
    trainer = _stored(folder.trainer_config, TrainerConfig, KEPT_BY_TRAINER)
    server = {"self_play.search.simulations": SIMULATIONS, **server}
    server["self_play.history"] = folder.describe()["history"]
    server["net"] = _network(folder) or server.get("net") or settings.net or NET
    settings = replace(settings, run=folder.name, net=server["net"])
    # Its games may wait in the spool of a client.
    is_alone = folder.config.exists() and not (folder.spool / "client").exists()
    settings = replace(settings, client_workers=_client_workers(settings, is_alone=is_alone))
    if before := trainer.get("optimizer.cosine_minutes"):
        by_clock = settings.minutes and not settings.repeatable
        trainer["optimizer.cosine_minutes"] = before + settings.minutes if by_clock else 0.0
    return Basis(settings, nested(server), nested(trainer), goes_on=True)


def _stored(path: Path, kind: type, kept: Set[str]) -> dict[str, Any]:
    """Settings that a program wrote into a run's folder, by path; those that are gone are left out. Raises
    Fatal(BAD_DATA) if the file cannot be read."""
    try:
        found = flattened(read_toml(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Fatal(
            f"{path}, with which the run goes on, cannot be read ({error}): restore it from a backup, or "
            "give --recipe none for the programs' own settings",
            Exit.BAD_DATA,
        ) from error
    known = settings_in(kind)
    return {name: one for name, one in found.items() if name in known and name.partition(".")[0] in kept}


def _network(folder: RunFolder) -> str:
    """The name of the network that a run plays with; "" before it has one, or if it has no name today."""
    try:
        name = str(read_json(folder.weights / "current.json")["architecture"])
        check_name(name)
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return name


# ---- The machine ---------------------------------------------------------------------------------


@cache
def has_gpu(gpus: str) -> bool:
    """Whether a GPU evaluates: one that `--gpus` names, or any of this machine."""
    words = {word.strip() for word in gpus.split(",") if word.strip()}
    if words:
        return words != {"cpu"}
    if not may_have_gpus():
        return False
    asked = subprocess.run(python_module("server.devices"), capture_output=True, check=False)
    return asked.returncode == 0 and bool(json.loads(asked.stdout))


def _machine(gpus: str) -> str:
    cores = usable_cores()
    text = f"{cores} core{'' if cores == 1 else 's'}"
    return f"GPUs and {text}" if has_gpu(gpus) else text


def shown_recipes() -> str:
    """All recipes, one a line, for people."""
    on = {"cpu": "default without a GPU", "gpu": "default with a GPU", "": ""}
    rows = [(name, game, on[default], title) for game, name, default, title in recipes.listed_recipes()]
    return aligned([("recipe", "game", "machine", "what it is"), *rows], left=4)
