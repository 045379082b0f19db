"""Chess endgames against a bare king that defends perfectly: how many are mated, and how fast."""

from __future__ import annotations

from collections.abc import Callable

from engine.search_choice import search_name
from evaluation.match.openings import Opening
from experiments import contest
from experiments.contest import errors_of
from experiments.measures import Judgement, Measure, mean_of, share
from experiments.recipe import Recipe
from experiments.training import Trained
from games.chess import GAME, endings
from games.chess.truth import won_rows
from games.game_history import GameHistory
from games.knowledge import Row

POSITIONS, ON_THE_WAY = 200, 60
"""Positions for the final judgement, and for each point of the curve."""
TARGETS = {"KQK": (0.99, 2.0), "KRK": (0.97, 4.0)}
"""Share of mates, and moves above the optimum on average."""
MAX_PLIES = 100
"""50 moves of either side."""
SEED, FINAL_SEED = 20_000, 30_000
"""Seeds of the positions of curves and tuning, and of those of the final judgement."""


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Judge all snapshots. The ending is the one that self-play starts from."""
    ending = recipe.server["self_play"]["start"]["generator"]
    rows = won_rows(ending, POSITIONS, SEED)
    final = won_rows(ending, POSITIONS, FINAL_SEED, apart_from=rows)
    found = Judgement()
    search = trained.search(recipe, GAME)
    how = recipe.judge_simulations, search_name(search)
    first, last = trained.snapshots[0], trained.snapshots[-1]
    for snapshot in trained.snapshots:
        tell(f"judging minute {snapshot.minute}")
        player = contest.net_player(trained.path(snapshot), *how)
        mates, above = conversions(player, rows[:ON_THE_WAY])
        found.add_point(
            "share of positions mated within 50 moves", "network", snapshot.minute, mates / ON_THE_WAY
        )
        if above:
            found.add_point(
                "moves above the optimum, of those mated", "network", snapshot.minute, mean_of(above)
            )
        for one in errors_of(trained, snapshot, recipe, GAME, rows)[:-1]:
            panel = "share of moves that throw the win away"
            found.add_point(panel, one.search, snapshot.minute, one.groups[0].errors)
        if snapshot in (first, last):
            name = "trained" if snapshot is last else "untrained"
            asked = TARGETS[ending] if snapshot is last else (None, None)
            name = f"{name}, {how[0]} simulations, {how[1]}"
            _add(found, name, *conversions(player, final), len(final), asked)
    tell("random moves")
    _add(found, "random moves", *conversions("random", final), len(final), (None, None))
    return found


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Share of mates within 50 moves, and of moves that throw the win away, without search and with it."""
    rows = won_rows(recipe.server["self_play"]["start"]["generator"], POSITIONS, SEED)
    search, file = trained.search(recipe, GAME), trained.path(trained.snapshots[-1])
    how = recipe.judge_simulations, search_name(search)
    mates, _ = conversions(contest.net_player(file, *how), rows[:ON_THE_WAY])
    raw, searched, _ = errors_of(trained, trained.snapshots[-1], recipe, GAME, rows)
    return {
        "mates": mates / ON_THE_WAY,
        "errors, raw policy": raw.groups[0].errors,
        f"errors, {recipe.judge_simulations} simulations": searched.groups[0].errors,
    }


def conversions(player: str, rows: list[Row]) -> tuple[int, list[float]]:
    """(positions mated, moves above the optimum of each mate); `player` has the winning side."""
    openings = [Opening(row.start, row.start) for row in rows]
    played = contest.play(GAME, player, "tablebase", openings, max_plies=MAX_PLIES)
    above = []
    for game in played:
        game_history = GameHistory(GAME, game.start)
        strong_first = game_history.side_to_move == 0
        known = endings.probe(game_history.state)
        if game.swapped == strong_first or game.outcome_for_a != 1 or known is None:
            continue
        above.append((game.plies - known.plies) / 2)
    return len(above), above


def _add(
    found: Judgement,
    name: str,
    mates: int,
    above: list[float],
    count: int,
    asked: tuple[float | None, float | None],
) -> None:
    what = "mates within 50 moves against perfect defence"
    found.measures.append(share(what, name, mates, count, target=asked[0]))
    if above:
        what = "moves above the optimum, of those mated"
        found.measures.append(
            Measure(what, name, mean_of(above), mates, target=asked[1], at_most=True, unit="moves")
        )
