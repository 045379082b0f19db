"""Errors on positions of known truth: all positions of a small game, or a labelled set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evaluation.truth.errors import Errors, PlayerErrors, TreeResult, final_rows, rows_for
from experiments.contest import errors_of
from experiments.measures import Judgement, Measure, mean_of, share
from experiments.recipe import Recipe
from experiments.training import Trained
from games.spec import Game
from trainer.validation import final_watched_rows, watched_rows

KEPT = "positions in which the result is kept"
ALL_POSITIONS = "share of all positions in which the move is an error"
IT_MATTERS = "errors where it matters"


def add_errors(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """Errors of all snapshots for the curve; errors of the untrained network, the last one and random moves
    on the positions for final judgements, if the game has separate ones."""
    rows, final = rows_for(game), final_rows(game)
    first, last = trained.snapshots[0], trained.snapshots[-1]
    for snapshot in trained.snapshots:
        tell(f"known positions, minute {snapshot.minute}")
        *players, random = errors_of(trained, snapshot, recipe, game, rows)
        _add_points(found, game, snapshot.minute, players)
        if snapshot in (first, last):
            if final != rows:
                *players, random = errors_of(trained, snapshot, recipe, game, final)
            name = "trained" if snapshot is last else "untrained"
            for player in players:
                found.measures += _measures(game, f"{name}, {player.search}", player)
    found.measures += _measures(game, "random moves", random)


def add_watched(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """Errors of the policy alone in the positions that trainers watch in a game that is not solved: of all
    snapshots for the curve; on others of their kind, of the untrained network, the last one and random
    moves."""
    rows, final = watched_rows(game), final_watched_rows(game)
    if not rows:
        return
    first, last = trained.snapshots[0], trained.snapshots[-1]
    for snapshot in trained.snapshots:
        tell(f"watched positions, minute {snapshot.minute}")
        policy, _ = errors_of(trained, snapshot, recipe, game, rows, with_search=False)
        for group in _groups(policy):
            found.add_point(
                f"{IT_MATTERS}, {policy.search}", group.group, snapshot.minute, group.errors_matter
            )
        if snapshot in (first, last):
            name = "trained" if snapshot is last else "untrained"
            policy, random = errors_of(trained, snapshot, recipe, game, final, with_search=False)
            found.measures += _errors_by_group(f"{name}, {policy.search}", policy)
    found.measures += _errors_by_group("random moves", random)


def brief_errors(game: Game, trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Errors of the last network where it matters, averaged over the groups, without search and with it."""
    *players, _ = errors_of(trained, trained.snapshots[-1], recipe, game, rows_for(game))
    names = ("errors, raw policy", f"errors, {recipe.judge_simulations} simulations")
    means = [mean_of([group.errors_matter for group in _groups(player)]) for player in players]
    return dict(zip(names, means, strict=True))


def _groups(player: PlayerErrors) -> Sequence[Errors]:
    """The groups without "all", which is the last of several."""
    return player.groups[:-1] or player.groups


def _add_points(found: Judgement, game: Game, minute: float, players: Sequence[PlayerErrors]) -> None:
    for player in players:
        if game.few_positions:
            found.add_point(ALL_POSITIONS, player.search, minute, player.groups[0].errors)
            continue
        for group in _groups(player):
            found.add_point(f"{IT_MATTERS}, {player.search}", group.group, minute, group.errors_matter)


def _measures(game: Game, label: str, player: PlayerErrors) -> list[Measure]:
    """Errors by group. For a game of few positions, all of which are tested: also the share in which the
    result is kept, and games against all replies."""
    if game.few_positions:
        group = player.groups[0]
        kept = Measure(KEPT, label, 1 - group.errors, group.rows)
        return [kept, *(_games_lost(label, side, tree) for side, tree in player.trees.items())]
    return _errors_by_group(label, player)


def _errors_by_group(label: str, player: PlayerErrors) -> list[Measure]:
    return [
        share(
            f"{IT_MATTERS}, {one.group}",
            label,
            round(one.errors_matter * one.matter),
            one.matter,
            at_most=True,
        )
        for one in _groups(player)
        if one.matter
    ]


def _games_lost(label: str, side: str, tree: TreeResult) -> Measure:
    what = f"games lost as {side} player against all replies"
    return Measure(what, label, tree.lost, tree.lines, at_most=True, unit="")
