"""The judge of any game: the knowledge about the game determines what is measured.

If the truth about positions of whole games is known, the curve shows errors in these positions. Otherwise it
shows matches against fixed players, errors of the raw policy in positions that trainers watch, and how
self-play games ended. All games have matches at the end. Curves and final figures use different positions,
because a run may be stopped when its curve looks good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from azselfplay.games import get_game
from azselfplay.games.knowledge import knowledge_of
from azselfplay.games.spec import PLY_CAP, Game
from azselfplay.host.runs import RunFolder
from azselfplay.lab.experiments.judges import matches
from azselfplay.lab.experiments.judges.matches import errors_of
from azselfplay.lab.experiments.measures import PLIES, SHARES, Judgement, Measure, mean_of, share
from azselfplay.lab.experiments.recipe import Recipe
from azselfplay.lab.experiments.training import Trained
from azselfplay.play.truth_errors import Errors, PlayerErrors, final_rows, rows_for
from azselfplay.store.reader import Range, StoreReader
from trainer.validation import final_watched_rows, watched_rows

KEPT = "positions in which the result is kept"

ALL_POSITIONS = "share of all positions in which the move is an error"

IT_MATTERS = "errors where it matters"

SPANS = 10
"""Number of parts of a run."""


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Judge all snapshots for the curve; at the end, compare the last network, the untrained one and random
    moves, and the last network with earlier ones."""
    game, found = get_game(recipe.game), Judgement()
    if knows_positions(game):
        add_errors(found, game, trained, recipe, tell)
    else:
        matches.add_scores(found, game, trained, recipe)
    matches.add_matches(found, game, trained, recipe, tell)
    if not knows_positions(game):
        add_errors(found, game, trained, recipe, tell)
        has_others = bool(recipe.server.get("self_play", {}).get("start"))
        add_self_play(found, game, trained.folder, has_others=has_others)
    return found


check = matches.check
"""All else that is judged follows from the game."""


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Return the errors of the last network on known positions where a move can lose the result, averaged
    over the groups, without search and with search; or, if none are known, the points that it loses against
    fixed players, in matches as long as the final ones but from the openings of curves. Smaller is better."""
    game = get_game(recipe.game)
    if knows_positions(game):
        *players, _ = errors_of(trained, trained.snapshots[-1], recipe, game, rows_for(game))
        names = ("errors, raw policy", f"errors, {recipe.judge_simulations} simulations")
        means = [mean_of([group.errors_matter for group in _groups(player)]) for player in players]
        return dict(zip(names, means, strict=True))
    scores = matches.scores(game, trained, recipe, trained.snapshots[-1], matches.PAIRS)
    return {f"points lost against {opponent}": 1 - score for opponent, score in scores.items()}


def knows_positions(game: Game) -> bool:
    """Return whether the truth about positions of whole games is known, not only about endgames."""
    solution = knowledge_of(game).solution
    return solution is not None and solution.plays_whole_games


# ---- Positions of known truth -------------------------------------------------------------------


def add_errors(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """Add the errors of all snapshots to the curve, and the errors of the untrained network, the last network
    and random moves on the positions for final judgements, if the game has separate ones. If the game is not
    solved, add only the errors of the raw policy in the positions that trainers watch, if there are any."""
    is_solved = knows_positions(game)
    if is_solved:
        what, rows, final = "known positions", rows_for(game), final_rows(game)
    else:
        what, rows, final = "watched positions", watched_rows(game), final_watched_rows(game)
    if not rows:
        return
    first, last = trained.snapshots[0], trained.snapshots[-1]
    for snapshot in trained.snapshots:
        tell(f"{what}, minute {snapshot.minute}")
        *players, random = errors_of(trained, snapshot, recipe, game, rows, with_search=is_solved)
        for player in players:
            if game.few_positions:
                found.add_point(ALL_POSITIONS, player.search, snapshot.minute, player.groups[0].errors)
                continue
            panel = f"{IT_MATTERS}, {player.search}"
            for one in _groups(player):
                found.add_point(panel, one.group, snapshot.minute, one.errors_matter)
        if snapshot in (first, last):
            # If the positions are the same, the errors are already measured.
            if final != rows:
                *players, random = errors_of(trained, snapshot, recipe, game, final, with_search=is_solved)
            name = "trained" if snapshot is last else "untrained"
            for player in players:
                found.measures += _measures(game, f"{name}, {player.search}", player)
    found.measures += _measures(game, "random moves", random)


def _groups(player: PlayerErrors) -> Sequence[Errors]:
    """Return the groups without "all", which is the last one if there are several."""
    return player.groups[:-1] or player.groups


def _measures(game: Game, label: str, player: PlayerErrors) -> list[Measure]:
    """Return the errors by group. For a game of few positions, which are all tested, also return the share of
    positions in which the result is kept, and the games against all replies."""
    if game.few_positions:
        group = player.groups[0]
        found = [Measure(KEPT, label, 1 - group.errors, group.rows)]
        for side, tree in player.trees.items():
            what = f"games lost as {side} player against all replies"
            found.append(Measure(what, label, tree.lost, tree.lines, at_most=True, unit=""))
        return found
    found = []
    for one in _groups(player):
        if one.matter:  # else nothing was counted
            hits = round(one.errors_matter * one.matter)
            found.append(share(f"{IT_MATTERS}, {one.group}", label, hits, one.matter, at_most=True))
    return found


# ---- The run's own games ------------------------------------------------------------------------


def add_self_play(found: Judgement, game: Game, folder: RunFolder, *, has_others: bool) -> None:
    """Add how a run's games from the usual start ended: the curves over SPANS equal parts of them, oldest
    first (fewer if there are few games), and the share of decisive games in the last part.

    If it `has_others`, games from other starts, such as won endgames, are left out: they would raise the
    share of decisive games. All games of chess960 name their start.
    """
    with closing(StoreReader(folder.games)) as reader:
        games = [
            stored for stored, record in reader.records(game, Range()) if not (has_others and record.start)
        ]
    if not games:
        return
    parts = min(SPANS, len(games))
    mate, decisive = knowledge_of(game).matches.mate, list[float]()
    for number in range(parts):
        part = games[len(games) * number // parts : len(games) * (number + 1) // parts]
        # The store knows no other clock than the wall clock.
        minute = (part[-1].received_at - games[0].received_at) / 60
        decisive.append(mean_of([one.outcome != 0 for one in part]))
        found.add_point(SHARES, "decisive", minute, decisive[-1])
        found.add_point(SHARES, "mates", minute, mean_of([one.reason == mate for one in part]))
        found.add_point(SHARES, PLY_CAP, minute, mean_of([one.reason == PLY_CAP for one in part]))
        found.add_point(PLIES, "mean", minute, mean_of([one.plies for one in part]))
    won = sum(one.outcome != 0 for one in part)
    what = "decisive games in the last tenth of self-play"
    found.measures.append(share(what, "self-play", won, len(part)))
    if before := decisive[:-3]:
        found.notes.append(
            f"decisive share: {mean_of(before):.1%} before the last three tenths of self-play, "
            f"{mean_of(decisive[-3:]):.1%} in them"
        )
