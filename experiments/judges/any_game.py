"""The judge of any game: what it measures follows from what is known about the game.

Where the truth about positions of whole games is known, the curve shows errors on them. Otherwise it shows
matches against fixed players, how the policy alone errs in positions that trainers watch, how the value
follows material, and how self-play ended. All games have matches at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from experiments.judges import known_positions, matches, material, self_play
from experiments.measures import Judgement
from experiments.recipe import Recipe
from experiments.training import Trained
from games import get_game
from games.knowledge import knowledge_of, nothing
from games.spec import Game


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Judge all snapshots for the curve; at the end, compare the last network, the untrained one and random
    moves, and the last network with earlier ones."""
    game, found = get_game(recipe.game), Judgement()
    if knows_positions(game):
        known_positions.add_errors(found, game, trained, recipe, tell)
    else:
        matches.add_scores(found, game, trained, recipe)
    matches.add_matches(found, game, trained, recipe, tell)
    if not knows_positions(game):
        known_positions.add_watched(found, game, trained, recipe, tell)
        if knowledge_of(game).heuristic.material is not nothing:
            material.add_correlations(found, game, trained, recipe, tell)
        material.add_odds(found, game, trained, recipe, tell)
        self_play.add_self_play(found, self_play.spans(game, trained.folder))
    return found


def check(recipe: Recipe) -> None:
    """Raise Fatal(CONFIG) if the matches of a recipe cannot be played here."""
    matches.check(recipe)


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Errors of the last network on known positions, or, where none are known, points that it loses against
    fixed players. Smaller is better."""
    game = get_game(recipe.game)
    if knows_positions(game):
        return known_positions.brief_errors(game, trained, recipe)
    scores = matches.scores(game, trained, recipe, trained.snapshots[-1])
    return {f"points lost against {opponent}": 1 - score for opponent, score in scores.items()}


def knows_positions(game: Game) -> bool:
    """Whether the truth about positions of whole games is known, not only about endgames."""
    solution = knowledge_of(game).solution
    return solution is not None and solution.plays_whole_games
