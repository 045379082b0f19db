"""The strength of a run's networks over training, from the results of `azplay ladder` and `azplay truth` in
the run's folder. Pages and report draw it together with the curves.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from itertools import count
from typing import Any

from azselfplay.games import get_game
from azselfplay.games.knowledge import knowledge_of
from azselfplay.host.exits import Fatal
from azselfplay.host.reading import read_json
from azselfplay.host.runs import RunFolder, made_at
from azselfplay.play.book import Entrant, Published, published
from azselfplay.store.reader import game_of

MOST_FILES = 200

STEP_IN_NAME = re.compile(r"\(step (\d+)\)")
"""The training step in the name of a network (`play.nets.LoadedNet.name`)."""

SHARES = ("rows", "errors", "errors_matter")
"""Fields of `play.truth_errors.Errors`."""


def ratings_of(run: RunFolder) -> list[tuple[Entrant, Published]]:
    """Return the players that `azplay ladder` has rated, with their ratings; none if its file cannot be
    read."""
    with contextlib.suppress(OSError, ValueError):
        return published(run.path / "ratings.json")
    return []


def strongest(run: RunFolder) -> dict[str, Any] | None:
    """Return the rating of the newest network that `azplay ladder` has rated, with its best search."""
    rated = [one for one in ratings_of(run) if one[0].step is not None]
    if not rated:
        return None
    newest = max(player.step or 0 for player, _ in rated)
    best = max((rating for player, rating in rated if player.step == newest), key=lambda rating: rating.elo)
    return {"elo": best.elo, "margin": best.margin95, "step": newest}


def strength_of(run: RunFolder) -> dict[str, Any]:
    """Return ratings and errors by training step; empty lists where nothing was measured.

    `is_solved`: whether the best moves of some positions of the game are known. `ladder`: a row for each
    rated network, with its 95 % margin. `created`: when the run was made, in seconds since 1970, from which
    the hours of these rows count; None where that is unknown. `fixed`: the players without a network on the
    same scale. `commands`: the commands for further measurements, by what they measure.
    """
    is_solved, created, folder = False, None, shlex.quote(str(run.path))
    unused = next(number for number in count(1) if not (run.path / f"truth-{number}.json").exists())
    with contextlib.suppress(Fatal, ValueError):
        is_solved = knowledge_of(get_game(game_of(run))).solution is not None
        created = made_at(run.describe())
    ladder, fixed = [], []
    for player, rating in ratings_of(run):
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
        "created": created,
        "ladder": sorted(ladder, key=lambda row: (row["search"], row["step"])),
        "fixed": sorted(fixed, key=lambda row: row["elo"]),
        "errors": errors(run),
        # These are for a shell in the folder in which the pages or the report were started.
        "commands": {
            "ladder": f"azplay ladder {folder}",
            "truth": f"azplay truth {folder} --json {folder}/truth-{unused}.json",
        },
    }


def errors(run: RunFolder) -> list[dict[str, Any]]:
    """Return the errors in positions of known truth, from the files `truth*.json` in the run's folder."""
    unique: dict[tuple[int, str, str], dict[str, Any]] = {}
    # In the order of their numbers: the name of a larger one is longer.
    paths = sorted(run.path.glob("truth*.json"), key=lambda path: (len(path.name), path.name))
    for path in paths[-MOST_FILES:]:
        # If a file is damaged, the rows before the damage are kept.
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
