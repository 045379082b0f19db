"""Connect Four: positions labelled by a solver, and matches against alpha-beta and plain MCTS.

The curve uses one set of positions, and so does tuning; the final judgement uses another one.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.search_choice import search_name
from evaluation.match.openings import random_openings
from evaluation.truth.report import PlayerErrors
from evaluation.truth.rows import final_rows, rows_for
from experiments import contest
from experiments.contest import brief_errors, errors_of
from experiments.measures import Judgement, mean_of, share
from experiments.recipe import Recipe
from experiments.training import Trained
from games.connect_four import GAME

OPPONENTS = ("alphabeta:5", "rollouts:1000")
MATCH_TARGET = 0.95
OPENING_PLIES = 2
"""Random first moves: 49 distinct openings, each twice."""
SEARCH_TARGETS = {"end": 0.01, "middle": 0.03, "opening": 0.06}
RAW_TARGET = 0.20
"""For the raw policy, in every phase."""


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Judge all snapshots by errors; the last one, the untrained one and random moves by final positions and
    matches."""
    found = Judgement()
    rows = rows_for(GAME)
    for snapshot in trained.snapshots:
        tell(f"judging minute {snapshot.minute}")
        for player in errors_of(trained, snapshot, recipe, GAME, rows)[:-1]:
            for group in player.groups[:-1]:
                panel = f"errors where it matters, {player.search}"
                found.add_point(panel, group.group, snapshot.minute, group.errors_matter)
    final = final_rows(GAME)
    for name, snapshot in (("untrained", trained.snapshots[0]), ("trained", trained.snapshots[-1])):
        tell(f"final positions, {name}")
        *players, random = errors_of(trained, snapshot, recipe, GAME, final)
        for player in players:
            _add_errors(found, name, player)
    _add_errors(found, "random moves", random)
    _add_matches(found, trained, recipe, tell)
    return found


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Errors where it matters, the mean of the phases, without search and with it."""

    def matters(player: PlayerErrors) -> float:
        return mean_of([group.errors_matter for group in player.groups[:-1]])

    return brief_errors(trained, recipe, GAME, rows_for(GAME), matters)


def _add_errors(found: Judgement, name: str, player: PlayerErrors) -> None:
    is_raw = player.simulations == 0
    label = name if player.simulations is None else f"{name}, {player.search}"
    for group in player.groups[:-1]:
        target = RAW_TARGET if is_raw else SEARCH_TARGETS[group.group]
        asked = {"target": target, "at_most": True} if name == "trained" else {}
        hits = round(group.errors_matter * group.matter)
        found.measures.append(
            share(f"errors where it matters, {group.group}", label, hits, group.matter, **asked)
        )


def _add_matches(found: Judgement, trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> None:
    openings = random_openings(GAME, GAME.actions**OPENING_PLIES, OPENING_PLIES, seed=1)
    how = recipe.in_matches, search_name(trained.search(recipe, GAME))
    players = {
        "trained": contest.net_player(trained.path(trained.snapshots[-1]), *how),
        "untrained": contest.net_player(trained.path(trained.snapshots[0]), *how),
        "random moves": "random",
    }
    for opponent in OPPONENTS:
        for name, player in players.items():
            tell(f"{name} against {opponent}")
            played = contest.play(GAME, player, opponent, openings)
            target = MATCH_TARGET if name == "trained" else None
            label = name if player == "random" else f"{name}, {how[0]} simulations, {how[1]}"
            found.measures.append(contest.score(f"score against {opponent}", label, played, target))
