"""The judge of any game: matches of the run's networks against each other and against fixed players, and
errors on known positions if the game has some."""

from __future__ import annotations

from collections.abc import Callable

from engine.search_choice import search_name
from evaluation.match.openings import Opening, random_openings, usual_plies
from evaluation.truth.report import PlayerErrors
from evaluation.truth.rows import final_rows, rows_for
from experiments import contest
from experiments.contest import errors_of
from experiments.measures import Judgement, Measure, share
from experiments.recipe import Recipe
from experiments.training import Snapshot, Trained
from games import get_game
from games.knowledge import knowledge_of
from games.spec import Game

OPPONENTS = ("random", "rollouts:100")
PAIRS, PAIRS_ON_THE_WAY = 50, 10
"""Openings of a match, each from both sides: at the end, and for networks before it."""
CURVE_SEED, FINAL_SEED = 1, 2
"""Seeds of openings. A run may be stopped because its curve is good, so it is judged on others."""
ERRORS = "errors where it matters"


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Judge all snapshots for the curve; at the end the last network, the untrained one and random moves, and
    the last network against earlier ones."""
    game, found = get_game(recipe.game), Judgement()
    has_truth = knowledge_of(game).solution is not None
    for snapshot in trained.snapshots:
        tell(f"judging minute {snapshot.minute}")
        for opponent in OPPONENTS:
            score = match_score(game, _player(trained, recipe, snapshot), opponent, final=False).value
            found.add_point("score", f"against {opponent}", snapshot.minute, score)
        if has_truth:
            *players, _ = errors_of(trained, snapshot, recipe, game, rows_for(game))
            for player in players:
                found.add_point(ERRORS, player.search, snapshot.minute, _all_of(player))
    _add_matches(found, game, trained, recipe, tell)
    if has_truth:
        _add_errors(found, game, trained, recipe, tell)
    return found


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Points that the last network loses against the fixed players, and its errors on known positions if the
    game has some. Smaller is better."""
    game, last = get_game(recipe.game), trained.snapshots[-1]
    player = _player(trained, recipe, last)
    scores = {one: match_score(game, player, one, final=False).value for one in OPPONENTS}
    figures = {f"points lost against {opponent}": 1 - score for opponent, score in scores.items()}
    if knowledge_of(game).solution is not None:
        *players, _ = errors_of(trained, last, recipe, game, rows_for(game))
        figures |= {f"errors, {player.search}": _all_of(player) for player in players}
    return figures


def openings_of(game: Game, *, final: bool) -> list[Opening]:
    """Random openings; the final ones differ from those of the curve (in a small game some are the same)."""
    pairs, seed = (PAIRS, FINAL_SEED) if final else (PAIRS_ON_THE_WAY, CURVE_SEED)
    return random_openings(game, pairs, usual_plies(game), seed=seed)


def _player(trained: Trained, recipe: Recipe, snapshot: Snapshot) -> str:
    how = recipe.in_matches, search_name(trained.search(recipe, get_game(recipe.game)))
    return contest.net_player(trained.path(snapshot), *how)


def match_score(game: Game, player: str, opponent: str, *, final: bool, label: str = "") -> Measure:
    """Points a game of `player`, which plays each opening from both sides."""
    played = contest.play(game, player, opponent, openings_of(game, final=final))
    return contest.score(f"score against {opponent}", label, played)


def _add_matches(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    first, last = trained.snapshots[0], trained.snapshots[-1]
    middle = trained.snapshots[len(trained.snapshots) // 2]
    how = f"{recipe.in_matches} simulations, {search_name(trained.search(recipe, game))}"
    players = {
        f"trained, {how}": _player(trained, recipe, last),
        f"untrained, {how}": _player(trained, recipe, first),
        "random moves": "random",
    }
    for label, player in players.items():
        for opponent in OPPONENTS:
            tell(f"{label} against {opponent}")
            found.measures.append(match_score(game, player, opponent, final=True, label=label))
    earlier = {"the untrained network": first, f"the network of minute {middle.minute}": middle}
    for name, snapshot in earlier.items():
        if snapshot is not last:
            tell(f"trained against {name}")
            opponent = _player(trained, recipe, snapshot)
            played = contest.play(
                game, _player(trained, recipe, last), opponent, openings_of(game, final=True)
            )
            found.measures.append(contest.score(f"score against {name}", f"trained, {how}", played))


def _add_errors(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    rows = final_rows(game)
    for name, snapshot in (("untrained", trained.snapshots[0]), ("trained", trained.snapshots[-1])):
        tell(f"known positions, {name}")
        *players, random = errors_of(trained, snapshot, recipe, game, rows)
        for player in players:
            _add_groups(found, f"{name}, {player.search}", player)
    _add_groups(found, "random moves", random)


def _add_groups(found: Judgement, label: str, player: PlayerErrors) -> None:
    for group in player.groups:
        if group.matter:
            hits = round(group.errors_matter * group.matter)
            found.measures.append(share(f"{ERRORS}, {group.group}", label, hits, group.matter))


def _all_of(player: PlayerErrors) -> float:
    """Errors where it matters over all positions: the last group is "all"."""
    return player.groups[-1].errors_matter
