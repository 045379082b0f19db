"""Chess endgames against a bare king that defends perfectly: how many are mated, and how fast."""

from __future__ import annotations

from collections.abc import Callable

from games.chess import GAME
from learn import contest
from learn.errors import errors_of
from learn.measures import Judgement, Measure, mean_of, share
from learn.recipe import Recipe
from learn.training import Trained
from play.lines import GameLine
from play.match.openings import Opening
from play.search_choice import search_name
from play.truth import endgames
from play.truth.rows import Row, won_rows

POSITIONS, ON_THE_WAY = 200, 60
"""Positions for the end of the run, and for each network before it."""
TARGETS = {"KQK": (0.99, 2.0), "KRK": (0.97, 4.0)}
"""Share of mates, and moves above the optimum on average."""
MAX_PLIES = 100
"""50 moves of either side."""
SEED = 20_000
"""Of the positions; self-play draws its own from other numbers."""


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """The ending is the one that self-play began at."""
    ending = recipe.server["self_play"]["start_generator"]
    rows = won_rows(ending, POSITIONS, SEED)
    found = Judgement()
    search = trained.search(recipe, GAME)
    how = recipe.judge_simulations, search_name(search)
    first, last = trained.snapshots[0], trained.snapshots[-1]
    for snapshot in trained.snapshots:
        tell(f"judging minute {snapshot.minute}")
        file = trained.path(snapshot)
        chosen = rows if snapshot in (first, last) else rows[:ON_THE_WAY]
        mates, above = conversions(contest.net_player(file, *how), chosen)
        found.add_point(
            "share of positions mated within 50 moves", "network", snapshot.minute, mates / len(chosen)
        )
        if above:
            found.add_point(
                "moves above the optimum, of those mated", "network", snapshot.minute, mean_of(above)
            )
        for player in errors_of(trained, snapshot, recipe, GAME, rows)[:-1]:
            panel = "share of moves that throw the win away"
            found.add_point(panel, player.search, snapshot.minute, player.groups[0].errors)
        if snapshot in (first, last):
            name = "trained" if snapshot is last else "untrained"
            asked = TARGETS[ending] if snapshot is last else (None, None)
            _add(found, f"{name}, {how[0]} simulations, {how[1]}", mates, above, len(chosen), asked)
    tell("random moves")
    _add(found, "random moves", *conversions("random", rows), len(rows), (None, None))
    return found


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Mates within 50 moves, and moves that throw the win away without search and with it."""
    rows = won_rows(recipe.server["self_play"]["start_generator"], POSITIONS, SEED)
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
    """(positions mated, moves above the optimum for each of them) with the winning side to move."""
    openings = [Opening(row.start, row.start) for row in rows]
    played = contest.play(GAME, player, "tablebase", openings, max_plies=MAX_PLIES)
    above = []
    for game in played:
        line = GameLine(GAME, game.start)
        strong_first = line.side_to_move == 0
        known = endgames.probe(line.state)
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
