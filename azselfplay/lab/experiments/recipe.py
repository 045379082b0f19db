"""A recipe: all settings of a run that proves that learning works, in one TOML file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, Literal

import msgspec

from azselfplay.games import get_game
from azselfplay.games.names import GAME_NAMES, is_game, listed, near, nearest, parts_of
from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.host.reading import read_toml
from net.architectures.registry import check_plays, is_sparse

FOLDER = Path(__file__).parent / "recipes"
MINUTES = 10.0
"""Minutes of a game without a recipe."""
JUDGING = (
    *("title", "judge", "targets", "seeds", "judge_simulations", "match_simulations", "opponents"),
    *("opening", "judge_search"),
)
"""Settings with which networks are judged: runs that differ only in these were trained alike."""


@dataclass(frozen=True)
class Recipe:
    """The settings of a recipe file."""

    name: str
    """Name of the file, without its ending."""
    title: str
    game: str
    minutes: float
    """Of self-play and training together, by `clock`."""
    clock: Literal["wall", "cores"] = "wall"
    """What `minutes` are: `wall`, or `cores`, the processor time of all processes of the run together. With
    `cores`, runs on a machine that also does other work are comparable."""
    judge: str = "any_game"
    """Judge of the result: `any_game`, or `endgame` for a run that begins at an ending with tables."""
    targets: dict[str, float] = field(default_factory=dict)
    """What the last network should reach: figures of the judge by name, `NAME, raw policy` for the network
    without search."""
    seeds: tuple[int, ...] = (1, 2)
    snapshot_minutes: float = 5.0
    """Minutes between two networks of the learning curve."""
    simulations: int = 64
    """New simulations a move in self-play."""
    judge_simulations: int = 64
    """Simulations a move of the network when it is judged."""
    match_simulations: int = 0
    """Simulations a move in matches against other players; 0: `judge_simulations`."""
    opponents: tuple[str, ...] = ()
    """Players of the final matches, weak to strong; empty: the game's own list (`Knowledge.matches`)."""
    opening: str = ""
    """Moves that begin every game of the matches, in the game's notation, separated by spaces; empty: random
    moves, different for each pair of games."""
    judge_search: str = ""
    """Search when it is judged, as in player specs: puct, gumbel, thompson, gumbel?gumbel_c_scale=0.1; empty:
    as in self-play."""
    net: str = "tiny"
    games: int = 128
    """Games in flight in the worker process."""
    workers: int = 1
    """Worker processes, on every machine, so that results can be compared; azrun lets azserver choose."""
    default_on: Literal["", "cpu", "gpu"] = ""
    """`cpu` or `gpu`: the recipe of azrun for this game on a machine without or with a GPU, if none is
    named."""
    most_games: int = 0
    """Games after which the run ends early; 0: no such limit."""
    server: dict[str, Any] = field(default_factory=dict)
    """Further settings of azserver (those of self-play under `self_play`)."""
    trainer: dict[str, Any] = field(default_factory=dict)
    """Further settings of the trainer."""

    @property
    def in_matches(self) -> int:
        """Simulations a move in matches."""
        return self.match_simulations or self.judge_simulations

    @property
    def parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of azserver and of the trainer, for their files."""
        played = self.server.get("self_play", {})
        search = {**played.get("search", {}), "simulations": self.simulations}
        server = {"net": self.net, "games": self.games, **self.server}
        # Return new dicts, so that callers who change them do not change the recipe.
        return {**server, "self_play": {**played, "search": search}}, dict(self.trainer)

    @property
    def of_a_run(self) -> dict[str, Any]:
        """All settings but `default_on`, which says nothing about a run."""
        return {name: value for name, value in asdict(self).items() if name != "default_on"}

    @property
    def of_training(self) -> dict[str, Any]:
        """The settings that affect training."""
        return {name: value for name, value in self.of_a_run.items() if name not in JUDGING}

    @property
    def of_judging(self) -> dict[str, Any]:
        """The settings that affect only the judging."""
        return {name: value for name, value in self.of_a_run.items() if name in JUDGING}


def names() -> list[str]:
    """Return the names of all recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def listed_recipes() -> list[tuple[str, str, str, str]]:
    """Return (game, name, `default_on`, title) of all recipes, by game. No game is imported."""
    found = []
    for name in names():
        settings = read_toml(FOLDER / f"{name}.toml")
        found.append((settings["game"], name, settings.get("default_on", ""), settings["title"]))
    return sorted(found)


def games_of(name: str) -> tuple[str, str]:
    """Return the names of the games whose recipes are for the game `name`: its own, and without options, so
    that go_9x9 has those of go."""
    return name, parts_of(name)[0] if is_game(name) else name


def default_for(game: str, *, has_gpu: bool) -> str:
    """Return the name of the recipe that `game` has by default on a machine with or without a GPU; "" if
    there is none. On a GPU a recipe for a CPU is better than none, and for a variant, such as go_9x9, that of
    its game."""
    defaults = {(of, on): name for of, name, on, _ in listed_recipes() if on}
    machines = ("gpu", "cpu") if has_gpu else ("cpu",)
    return next((defaults[key] for key in product(games_of(game), machines) if key in defaults), "")


def load(name: str) -> Recipe:
    """Return the recipe `name` of `experiments/recipes`, or in the file of that name; a game without a recipe
    is trained for MINUTES with default settings. Raises Fatal(CONFIG) otherwise."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        settings = read_toml(path)
    except FileNotFoundError as error:
        if is_game(name):
            with as_fatal(ValueError, Exit.CONFIG):
                get_game(name)  # a game may not have the board size in the name
            return Recipe(name, f"{name} in {MINUTES:.0f} minutes", name, MINUTES)
        meant = near(name, [*names(), *GAME_NAMES])
        raise Fatal(
            f"there is no recipe and no game {name!r}{f'; the nearest is {meant!r}' if meant else ''}. "
            f"Recipes: {', '.join(names())}. Games: {listed()}",
            Exit.CONFIG,
        ) from error
    except (OSError, ValueError) as error:
        raise Fatal(f"{path} cannot be read: {error}", Exit.CONFIG) from error
    return from_settings(path.stem, settings)


def from_settings(name: str, settings: dict[str, Any]) -> Recipe:
    """Return a recipe from the settings in its file. Raises Fatal(CONFIG) for an unknown or missing setting,
    or a value of the wrong type."""
    known = {one.name for one in fields(Recipe)} - {"name"}
    # Check names before msgspec does, because msgspec would not suggest the nearest one.
    for key in settings:
        if key not in known:
            raise Fatal(
                f"recipe {name}: {key!r} is not a setting; did you mean {nearest(key, known)!r}?", Exit.CONFIG
            )
    with as_fatal(ValueError, Exit.CONFIG, f"recipe {name}: "):  # msgspec.ValidationError is one
        recipe = msgspec.convert({**settings, "name": name}, Recipe)
        # A sparse network needs features that not every game has.
        if is_sparse(recipe.net):
            check_plays(recipe.net, get_game(recipe.game))
    return recipe


def to_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings from which `from_settings` makes this recipe."""
    settings = asdict(recipe)
    del settings["name"]
    return settings
