"""How strong a run's networks are over training, from what `azplay ladder` and `azplay truth` have left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from games import get_game
from games.knowledge import knowledge_of
from report.history import STEP
from report.ratings import read_ratings
from runtime.exits import Fatal
from runtime.runs import RunFolder
from web.curves import KNOWN_ERRORS

Columns = Mapping[str, list[float | None]]

MOST_FILES = 200
STEP_IN_NAME = re.compile(r"\(step (\d+)\)")
"""In the name of a network (`engine.nets.LoadedNet.name`)."""
SHARES = ("rows", "errors", "errors_matter")
"""Of `evaluation.truth.errors.Errors`."""


def strength_of(run: RunFolder, columns: Columns) -> dict[str, Any]:
    """Ratings and errors by training step; empty lists where nobody has measured them.

    columns  of the run's figures over time (`web.curves.Curves.as_columns`)
    """
    return {
        "is_solved": is_solved(run),
        "ladder": ladder(run),
        "fixed": fixed(run),
        "errors": errors(run),
        "own_errors": own_errors(columns),
    }


def is_solved(run: RunFolder) -> bool:
    """Whether the best moves of some positions of the run's game are known."""
    try:
        return knowledge_of(get_game(run.describe()["game"])).solution is not None
    except (Fatal, ValueError):
        return False


def own_errors(columns: Columns) -> dict[str, Any]:
    """The errors of the bare policy that the trainer has counted itself (`trainer.known_positions`): training
    steps, and for each group a share at each of them."""
    groups = {
        name.removeprefix(KNOWN_ERRORS): shares
        for name, shares in columns.items()
        if name.startswith(KNOWN_ERRORS)
    }
    return {"steps": columns[STEP] if groups else [], "groups": groups}


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
    """Errors where the right move is known, from the files `truth*.json` of the run's folder."""
    found: list[dict[str, Any]] = []
    for path in sorted(run.path.glob("truth*.json"))[:MOST_FILES]:
        found += _rows(path)
    unique = {(row["step"], row["search"], row["group"]): row for row in found}
    return sorted(unique.values(), key=lambda row: (row["search"], row["group"], row["step"]))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of one file; of a damaged one those before the damage."""
    try:
        for player in json.loads(path.read_bytes())["players"]:
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
