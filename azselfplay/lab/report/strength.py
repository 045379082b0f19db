"""How strong a run's networks are over training, from the results of `azplay ladder` and `azplay truth` in
its folder: for its pages and its report, which draw them together with the curves.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import Any

from msgspec import Struct

from azselfplay.games import get_game
from azselfplay.games.knowledge import knowledge_of
from azselfplay.host.exits import Fatal
from azselfplay.host.reading import read_json, read_struct
from azselfplay.host.runs import RunFolder
from azselfplay.play.book import Entrant

MOST_FILES = 200

STEP_IN_NAME = re.compile(r"\(step (\d+)\)")
"""The training step in the name of a network (`play.nets.LoadedNet.name`)."""

SHARES = ("rows", "errors", "errors_matter")
"""Fields of `play.truth_errors.Errors`."""


class Rating(Struct, frozen=True):
    elo: float
    margin95: float


class Rated(Struct, frozen=True):
    """The parts of ratings.json that are shown."""

    players: list[Entrant] = []
    ratings: dict[str, Rating] = {}

    def rated(self) -> list[tuple[Entrant, Rating]]:
        """The players that have a rating, with it."""
        return [(one, self.ratings[one.name]) for one in self.players if one.name in self.ratings]


def read_ratings(path: Path) -> Rated:
    """The ratings in a file; none if there is no such file or it cannot be read."""
    try:
        return read_struct(path, Rated)
    except (OSError, ValueError):
        return Rated()


def strongest(run: RunFolder) -> dict[str, Any] | None:
    """The newest of the run's networks that `azplay ladder` has rated, by its best search."""
    rated = [one for one in read_ratings(run.path / "ratings.json").rated() if one[0].step is not None]
    if not rated:
        return None
    newest = max(player.step or 0 for player, _ in rated)
    best = max((rating for player, rating in rated if player.step == newest), key=lambda rating: rating.elo)
    return {"elo": best.elo, "margin": best.margin95, "step": newest}


def strength_of(run: RunFolder) -> dict[str, Any]:
    """Ratings and errors by training step; empty lists where nothing was measured.

    `is_solved`: whether the best moves of some positions of the game are known. `ladder`: a row for each
    rated network, with its 95 % margin. `fixed`: the players without a network on the same scale. `commands`:
    what measures more, by what it measures.
    """
    is_solved, folder = False, shlex.quote(str(run.path))
    with contextlib.suppress(Fatal, ValueError):
        is_solved = knowledge_of(get_game(run.describe()["game"])).solution is not None
    ladder, fixed = [], []
    for player, rating in read_ratings(run.path / "ratings.json").rated():
        if player.version is None:
            fixed.append({"label": player.label, "elo": rating.elo})
            continue
        ladder.append(
            {
                "step": player.step or 0,
                "hours": player.hours,
                "games": player.games_before,
                "search": f"{player.simulations} simulations, {player.search}",
                "label": player.label,
                "elo": rating.elo,
                "margin": rating.margin95,
            }
        )
    return {
        "is_solved": is_solved,
        "ladder": sorted(ladder, key=lambda row: (row["search"], row["step"])),
        "fixed": sorted(fixed, key=lambda row: row["elo"]),
        "errors": errors(run),
        # To be copied into a shell in the folder that the pages or the report were started in.
        "commands": {
            "ladder": f"azplay ladder {folder}",
            "truth": f"azplay truth {folder} --json {folder}/truth-1.json",
        },
    }


def errors(run: RunFolder) -> list[dict[str, Any]]:
    """Errors in positions of known truth, from the files `truth*.json` of the run's folder."""
    unique: dict[tuple[int, str, str], dict[str, Any]] = {}
    for path in sorted(run.path.glob("truth*.json"))[:MOST_FILES]:
        # Of a damaged file the rows before the damage are kept.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            for player in read_json(path)["players"]:
                step = STEP_IN_NAME.search(player["player"])
                if step is None:  # not a network of a run
                    continue
                simulations = player["simulations"]
                search = f"{simulations} simulations, {player['search']}" if simulations else "raw policy"
                for name, group in player["groups"].items():
                    row = {"step": int(step[1]), "search": search, "group": name}
                    # A later file replaces an earlier one.
                    unique[row["step"], search, name] = row | {key: group[key] for key in SHARES}
    return sorted(unique.values(), key=lambda row: (row["search"], row["group"], row["step"]))
