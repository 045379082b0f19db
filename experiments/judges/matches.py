"""Matches of a run's networks against players that never change, and against each other."""

from __future__ import annotations

from collections.abc import Callable

from engine.search_choice import search_name
from evaluation.match.openings import Opening, random_openings, usual_plies
from evaluation.match.runner import PlayedGame
from experiments import contest
from experiments.measures import Judgement, Measure, share
from experiments.recipe import Recipe
from experiments.training import Snapshot, Trained
from games import get_game
from games.knowledge import knowledge_of
from games.spec import Game

PAIRS, PAIRS_ON_THE_WAY = 50, 10
"""Openings of a match, each from both sides: at the end, and for networks before it."""
CURVE_SEED, FINAL_SEED = 1, 2
"""Seeds of openings and positions. A run may be stopped because its curve is good, so it is judged on
others."""
ON_THE_CURVE = 2
"""Opponents of the curve: the first ones."""


def add_scores(found: Judgement, game: Game, trained: Trained, recipe: Recipe) -> None:
    """The curve: short matches of all snapshots."""
    for snapshot in trained.snapshots:
        for opponent, score in scores(game, trained, recipe, snapshot).items():
            found.add_point("score", f"against {opponent}", snapshot.minute, score)


def scores(game: Game, trained: Trained, recipe: Recipe, snapshot: Snapshot) -> dict[str, float]:
    """The score of a snapshot in a short match against each opponent of the curve."""
    player = player_of(trained, recipe, snapshot)
    return {
        opponent: contest.score("", "", play(game, player, opponent, openings_of(game, final=False))).value
        for opponent in knowledge_of(game).matches.opponents[:ON_THE_CURVE]
    }


def add_matches(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """The last network, the untrained one and random moves against all opponents, and the last network
    against earlier ones."""
    openings = openings_of(game, final=True)
    for label, player in final_players(trained, recipe).items():
        for opponent in knowledge_of(game).matches.opponents:
            tell(f"{label} against {opponent}")
            found.measures += _match(game, label, opponent, play(game, player, opponent, openings))
    first, last = trained.snapshots[0], trained.snapshots[-1]
    middle = trained.snapshots[len(trained.snapshots) // 2]
    earlier = {"the untrained network": first, f"the network of minute {middle.minute}": middle}
    label, player = next(iter(final_players(trained, recipe).items()))
    for name, snapshot in earlier.items():
        if snapshot is not last:
            tell(f"trained against {name}")
            played = play(game, player, player_of(trained, recipe, snapshot), openings)
            found.measures.append(contest.score(f"score against {name}", label, played))


def _match(game: Game, label: str, opponent: str, played: list[PlayedGame]) -> list[Measure]:
    measures = [contest.score(f"score against {opponent}", label, played)]
    mate = knowledge_of(game).matches.mate
    if mate:
        hits = sum(one.outcome_for_a == 1 and one.reason == mate for one in played)
        measures.append(share(f"games won by mate against {opponent}", label, hits, len(played)))
    return measures


def final_players(trained: Trained, recipe: Recipe) -> dict[str, str]:
    """Specs of those that are judged at the end, by label: the last network first."""
    how = f"{recipe.in_matches} simulations, {search_name(trained.search(recipe, get_game(recipe.game)))}"
    return {
        f"trained, {how}": player_of(trained, recipe, trained.snapshots[-1]),
        f"untrained, {how}": player_of(trained, recipe, trained.snapshots[0]),
        "random moves": "random",
    }


def player_of(trained: Trained, recipe: Recipe, snapshot: Snapshot) -> str:
    """The spec of a snapshot under the search of matches."""
    search = search_name(trained.search(recipe, get_game(recipe.game)))
    return contest.net_player(trained.path(snapshot), recipe.in_matches, search)


def openings_of(game: Game, *, final: bool) -> list[Opening]:
    """Random openings; the final ones differ from those of the curve (in a small game some are the same)."""
    pairs, seed = (PAIRS, FINAL_SEED) if final else (PAIRS_ON_THE_WAY, CURVE_SEED)
    return random_openings(game, pairs, opening_plies(game), seed=seed)


def opening_plies(game: Game) -> int:
    """Random moves that begin a game of a match."""
    return knowledge_of(game).matches.opening_plies or usual_plies(game)


def play(game: Game, player: str, opponent: str, openings: list[Opening]) -> list[PlayedGame]:
    """Every opening twice, colours swapped; drawn after the game's `matches.max_plies`."""
    return contest.play(game, player, opponent, openings, max_plies=knowledge_of(game).matches.max_plies)
