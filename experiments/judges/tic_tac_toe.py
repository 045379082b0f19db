"""Tic-tac-toe: all positions, and whole games against all replies."""

from __future__ import annotations

from collections.abc import Callable

from evaluation.truth.report import PlayerErrors
from evaluation.truth.rows import rows_for
from experiments.contest import brief_errors, errors_of
from experiments.measures import Judgement, Measure
from experiments.recipe import Recipe
from experiments.training import Trained
from games.tic_tac_toe import GAME

RAW_TARGET = 0.99
STATES = "positions in which the result is kept"
PANEL = "share of all positions in which the move is an error"


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Judge all snapshots for the curve; the last one, the untrained one and random moves in full."""
    found = Judgement()
    rows = rows_for(GAME)
    for snapshot in trained.snapshots:
        tell(f"judging minute {snapshot.minute}")
        *players, random = errors_of(trained, snapshot, recipe, GAME, rows)
        for player in players:
            found.add_point(PANEL, player.search, snapshot.minute, player.groups[0].errors)
        if snapshot is trained.snapshots[-1]:
            found.measures[:0] = [one for player in players for one in _measures("trained", player)]
        elif snapshot is trained.snapshots[0]:
            found.measures += [one for player in players for one in _measures("untrained", player)]
    found.measures += _measures("random moves", random)
    return found


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Share of all positions in which the move is an error, without search and with it."""
    return brief_errors(trained, recipe, GAME, rows_for(GAME), lambda player: player.groups[0].errors)


def _measures(name: str, player: PlayerErrors) -> list[Measure]:
    """Targets are for the trained network only."""
    is_raw, trained = player.simulations == 0, name == "trained"
    group = player.groups[0]
    label = name if player.simulations is None else f"{name}, {player.search}"
    target = RAW_TARGET if trained and is_raw else None
    measures = [Measure(STATES, label, 1 - group.errors, group.rows, target=target)]
    for side, tree in player.trees.items():
        what = f"games lost as {side} player against all replies"
        limit = 0.0 if trained else None
        measures.append(Measure(what, label, tree.lost, tree.lines, target=limit, at_most=True, unit=""))
    return measures
