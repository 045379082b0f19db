"""How strong a run's networks are over training, from the results of `azplay ladder` and `azplay truth`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from games import get_game
from games.knowledge import knowledge_of
from report.ratings import read_ratings
from runtime.exits import Fatal
from runtime.reading import read_json
from runtime.runs import RunFolder

MOST_FILES = 200
STEP_IN_NAME = re.compile(r"\(step (\d+)\)")
"""The training step in the name of a network (`engine.nets.LoadedNet.name`)."""
SHARES = ("rows", "errors", "errors_matter")
"""Fields of `evaluation.truth_errors.Errors`."""


def strength_of(run: RunFolder) -> dict[str, Any]:
    """Ratings and errors by training step; empty lists where nothing was measured."""
    return {
        "is_solved": is_solved(run),
        "ladder": ladder(run),
        "fixed": fixed(run),
        "errors": errors(run),
    }


def is_solved(run: RunFolder) -> bool:
    """Whether the best moves of some positions of the run's game are known."""
    try:
        return knowledge_of(get_game(run.describe()["game"])).solution is not None
    except (Fatal, ValueError):
        return False


def ladder(run: RunFolder) -> list[dict[str, Any]]:
    """A row for each rated network: step, hours, games before it, search, Elo and its 95 % margin."""
    rated = read_ratings(run.path / "ratings.json")
    found = []
    for player in rated.players if rated is not None else ():
        if rated is None or player.version is None or player.name not in rated.ratings:
            continue
        rating = rated.ratings[player.name]
        found.append(
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
    return sorted(found, key=lambda row: (row["search"], row["step"]))


def fixed(run: RunFolder) -> list[dict[str, Any]]:
    """The players without a network on the same scale."""
    rated = read_ratings(run.path / "ratings.json")
    if rated is None:
        return []
    found = [
        {"label": player.label, "elo": rated.ratings[player.name].elo}
        for player in rated.players
        if player.version is None and player.name in rated.ratings
    ]
    return sorted(found, key=lambda row: float(row["elo"]))


def errors(run: RunFolder) -> list[dict[str, Any]]:
    """Errors in positions of known truth, from the files `truth*.json` of the run's folder."""
    found: list[dict[str, Any]] = []
    for path in sorted(run.path.glob("truth*.json"))[:MOST_FILES]:
        found += _rows(path)
    unique = {(row["step"], row["search"], row["group"]): row for row in found}
    return sorted(unique.values(), key=lambda row: (row["search"], row["group"], row["step"]))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of one file; from a damaged one those before the damage."""
    try:
        for player in read_json(path)["players"]:
            step = STEP_IN_NAME.search(player["player"])
            if step is None:
                continue
            simulations = player["simulations"]
            search = f"{simulations} simulations, {player['search']}" if simulations else "raw policy"
            for name, group in player["groups"].items():
                yield {
                    "step": int(step[1]),
                    "search": search,
                    "group": name,
                    **{key: group[key] for key in SHARES},
                }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
