"""Judges endgames with tables, against a perfect defence: how many are won, and how fast."""

from __future__ import annotations

from collections.abc import Callable, Collection

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.knowledge import Row, knowledge_of
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.lab.experiments.judges.matches import errors_of, net_player, play_openings
from azselfplay.lab.experiments.measures import Judgement, Measure, mean_of, share
from azselfplay.lab.experiments.recipe import Recipe
from azselfplay.lab.experiments.training import Trained
from azselfplay.play.nets import search_name, settings_for_search
from azselfplay.play.openings import Opening
from azselfplay.play.truth_errors import solution_of

POSITIONS, ON_THE_WAY = 200, 60
"""Positions for the final judgement, and for each point of the curve."""
ABOVE = "moves above the optimum, of those mated"
MAX_PLIES = 100
"""50 moves for each side."""
SEED, FINAL_SEED = 20_000, 30_000
"""Seeds of the positions for curves and tuning, and of the positions for the final judgement."""


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Judge all snapshots. The ending is the one that self-play starts from."""
    game, found = get_game(recipe.game), Judgement()
    rows = rows_of(recipe, SEED)
    # Two seeds may draw the same position, so exclude the positions of the curve.
    final = rows_of(recipe, FINAL_SEED, apart_from=rows)
    how = recipe.judge_simulations, search_name(trained.search(recipe, game))
    first, last = trained.snapshots[0], trained.snapshots[-1]
    for snapshot in trained.snapshots:
        tell(f"judging minute {snapshot.minute}")
        player = net_player(trained.path(snapshot), *how)
        mates, above = conversions(game, player, rows[:ON_THE_WAY])
        found.add_point(
            "share of positions mated within 50 moves", "network", snapshot.minute, mates / ON_THE_WAY
        )
        if above:
            found.add_point(ABOVE, "network", snapshot.minute, mean_of(above))
        # The last entry is random moves, which the curve does not need.
        for one in errors_of(trained, snapshot, recipe, game, rows)[:-1]:
            panel = "share of moves that throw the win away"
            found.add_point(panel, one.search, snapshot.minute, one.groups[0].errors)
        if snapshot in (first, last):
            name = "trained" if snapshot is last else "untrained"
            _add(found, game, f"{name}, {how[0]} simulations, {how[1]}", player, final)
    tell("random moves")
    _add(found, game, "random moves", "random", final)
    return found


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Return the share of mates within 50 moves, and the shares of moves that throw the win away, without
    search and with search."""
    game, rows = get_game(recipe.game), rows_of(recipe, SEED)
    search, file = trained.search(recipe, game), trained.path(trained.snapshots[-1])
    how = recipe.judge_simulations, search_name(search)
    mates, _ = conversions(game, net_player(file, *how), rows[:ON_THE_WAY])
    raw, searched, _ = errors_of(trained, trained.snapshots[-1], recipe, game, rows)
    return {
        "mates": mates / ON_THE_WAY,
        "errors, raw policy": raw.groups[0].errors,
        f"errors, {recipe.judge_simulations} simulations": searched.groups[0].errors,
    }


def check(recipe: Recipe) -> None:
    """Raise Fatal(CONFIG) if self-play does not start from an ending with tables, or there is no such search
    as the recipe's."""
    game = get_game(recipe.game)
    settings_for_search(recipe.judge_search, game)
    solution = knowledge_of(game).solution
    known = solution.endings if solution else {}
    if _ending(recipe) not in known:
        tables = ", ".join(known) or f"none: the judge of {recipe.game} is any_game"
        raise Fatal(
            f"recipe {recipe.name}: the judge endgame needs an ending with tables as "
            f"self_play.start.generator, not {_ending(recipe)!r}; there are {tables}",
            Exit.CONFIG,
        )


def _ending(recipe: Recipe) -> str:
    """Return the ending that self-play starts from."""
    return str(recipe.server.get("self_play", {}).get("start", {}).get("generator", ""))


def rows_of(recipe: Recipe, seed: int, apart_from: Collection[Row] = ()) -> list[Row]:
    """Return POSITIONS won positions. Raises Fatal(CONFIG) as `check` does."""
    check(recipe)
    solution = solution_of(get_game(recipe.game), "judge its networks by matches")
    return solution.endings[_ending(recipe)](POSITIONS, seed, apart_from)


def conversions(game: Game, player: str, rows: list[Row]) -> tuple[int, list[float]]:
    """Return (number of positions mated, moves above the optimum for each mate); `player` has the winning
    side."""
    openings = [Opening(row.start, row.start) for row in rows]
    solution = solution_of(game, "judge its networks by matches")
    above = []
    for played in play_openings(game, player, "tablebase", openings, max_plies=MAX_PLIES):
        start = GameHistory(game, played.start)
        # Each opening is played from both sides; the player has the winning side in half of the games.
        is_strong = played.swapped == (start.side_to_move != 0)
        known = solution.probe(start.state)
        if is_strong and played.outcome_for_a == 1 and known is not None and known.plies is not None:
            # Convert to moves, because a table counts plies.
            above.append((played.plies - known.plies) / 2)
    return len(above), above


def _add(found: Judgement, game: Game, label: str, player: str, rows: list[Row]) -> None:
    mates, above = conversions(game, player, rows)
    found.measures.append(share("mates within 50 moves against perfect defence", label, mates, len(rows)))
    if above:
        found.measures.append(Measure(ABOVE, label, mean_of(above), mates, at_most=True, unit="moves"))
