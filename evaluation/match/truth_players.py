"""Perfect players: solvers and endgame tables, from the knowledge about the games (`games.knowledge`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evaluation.match.player import Choice, PlayerFailed
from evaluation.match.search_players import Think, alphabeta_think
from games import get_game
from games.game_history import GameHistory
from games.knowledge import Solution, knowledge_of
from games.names import WITH_SOLVED
from games.spec import Game
from runtime.exits import Exit, Fatal


def solver_think(game: Game) -> Think:
    """A random one of the actions that keep the result of perfect play; a shallow search where it is unknown.

    Fails in an unknown position if the game says that searching makes no sense there. Raises Fatal(CONFIG)
    for a game of which too little is solved.
    """
    solution = knowledge_of(game).solution
    if solution is None or not solution.plays_whole_games:
        have = _games_with(lambda one: one.plays_whole_games)
        raise Fatal(f"there is no solver for {game.name}; there is one for {have}", Exit.CONFIG)
    before = alphabeta_think(game, solution.depth) if solution.depth else None

    def think(game_history: GameHistory, rng: np.random.Generator) -> Choice:
        known = solution.known(game_history.states)
        if known is not None:
            return Choice(int(rng.choice(sorted(known.keeps))), float(known.value))
        if before is None:
            raise PlayerFailed(f"{game.notation.state_to_text(game_history.state)} is not solved")
        return before(game_history, rng)

    return think


def tablebase_think(game: Game) -> Think:
    """The fastest way to win, or the slowest to lose. Fails in a position without a table.

    Raises Fatal(CONFIG) for a game without tables that count the plies to the end.
    """
    table = table_of(game, "tablebase")

    def think(game_history: GameHistory, rng: np.random.Generator) -> Choice:
        known = table.probe(game_history.state)
        if known is None:
            position = game.notation.state_to_text(game_history.state)
            raise PlayerFailed(f"no endgame table for {position}; there are {table.covers}")
        return Choice(int(rng.choice(sorted(known.best))), float(known.value))

    return think


def table_of(game: Game, what: str) -> Solution:
    """The game's solution, if it counts the plies to the end. Otherwise raises Fatal(CONFIG), naming `what`
    needs it."""
    solution = knowledge_of(game).solution
    if solution is None or not solution.counts_plies:
        have = _games_with(lambda one: one.counts_plies)
        raise Fatal(f"{what}: there are no tables for {game.name}; there are some for {have}", Exit.CONFIG)
    return solution


def _games_with(has_it: Callable[[Solution], bool]) -> str:
    """The games whose solution fulfils `has_it`."""
    solutions = {name: knowledge_of(get_game(name)).solution for name in WITH_SOLVED}
    return ", ".join(name for name, one in solutions.items() if one is not None and has_it(one))
