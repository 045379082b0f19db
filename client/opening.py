"""Where a game begins: so that not all games begin alike."""

from __future__ import annotations

import numpy as np

from games.spec import Game, State
from protocol.settings import SelfPlaySettings
from search.settings import generator_names, start_lines
from search.tree import SearchTree


def start_of_game(game: Game, settings: SelfPlaySettings, rng: np.random.Generator) -> str:
    """`start`, or in a `start_share` of games one of `start_positions` or of what `start_generator` draws."""
    if settings.start_share == 0 or rng.random() >= settings.start_share:
        return settings.start
    names = generator_names(settings.start_generator)
    if names:
        assert game.generator is not None
        return game.generator.draw(names[int(rng.integers(len(names)))], rng)
    lines = start_lines(settings.start_positions)
    return lines[int(rng.integers(len(lines)))]


def random_opening(
    tree: SearchTree, start: State, settings: SelfPlaySettings, rng: np.random.Generator
) -> list[int]:
    """Play 0 to `random_plies` legal actions, all equally likely, in a `random_share` of games; which ones.

    `tree` is at `start`. The game never ends in them: where an action would end it, play stops before.
    """
    if settings.random_plies == 0 or rng.random() >= settings.random_share:
        return []
    actions: list[int] = []
    for _ in range(rng.integers(settings.random_plies, endpoint=True)):
        action = int(rng.choice(tree.legal_actions()))
        tree.advance(action)
        if tree.end_reason() is not None:
            tree.reset(start)
            for again in actions:
                tree.advance(again)
            break
        actions.append(action)
    return actions
