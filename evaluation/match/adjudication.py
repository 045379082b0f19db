"""Known results in matches: perfect players, and games that are ended early.

Solvers and endgame tables come from the knowledge about the games (`games.knowledge`). They play, or they end
a game whose result is known. Ending games early is off by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation.match.player import Choice, PlayerFailed
from evaluation.match.search_players import Think, alphabeta_think
from games import get_game
from games.game_history import GameHistory
from games.knowledge import Solution, knowledge_of
from games.names import WITH_SOLVED
from games.spec import Game, outcome_for_first_player
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


# Ending games early, by values: a side wins when both players, each at its own moves, gave it a value of
# `win_value` or more for `win_plies` plies in a row. The game is a draw when the values of both were within
# `draw_value` of 0 for `draw_plies` plies, from ply `draw_from` on. A move without a value (Choice.value
# None) restarts the count. By tables: a position whose result is known ends the game with that result.

WON, DRAWN, TABLE = "adjudicated_win", "adjudicated_draw", "tablebase"
"""Reasons."""


@dataclass(frozen=True)
class Adjudication:
    """When a game is ended early; the default is never."""

    win_value: float = 0.95
    """Value in [0, 1]."""
    win_plies: int = 0
    """Plies in a row; 0 switches it off."""
    draw_value: float = 0.02
    draw_plies: int = 0
    """Plies in a row; 0 switches it off."""
    draw_from: int = 80
    """Ply from which on games may be adjudicated as draws."""
    known: Callable[[GameHistory], int | None] | None = None
    """Result for the side to move, None where it is unknown (`known_results`)."""


class _Row:
    """Plies in a row with a value of one kind, and whose values they were."""

    def __init__(self) -> None:
        self.plies = 0
        self.sides: set[int] = set()

    def add(self, side: int) -> None:
        self.plies += 1
        self.sides.add(side)

    def has(self, plies: int) -> bool:
        """Whether there are at least `plies` (0: never), from both sides, because one side may move many
        times in a row."""
        return 0 < plies <= self.plies and len(self.sides) == 2


class Judge:
    """Watches one game. Pure: it takes values and answers with a verdict."""

    def __init__(self, rules: Adjudication) -> None:
        self._rules = rules
        self._winning, self._level = _Row(), _Row()
        self._winner = 0

    def heard(self, value: float | None, side: int) -> None:
        """Note that `side` (0: the first player) has moved and gave its position `value`."""
        rules = self._rules
        opinion = None if value is None else outcome_for_first_player(1, side) * value
        clear = opinion is not None and abs(opinion) >= rules.win_value
        winner = (1 if opinion > 0 else -1) if clear and opinion is not None else 0
        if not clear or winner != self._winner:
            self._winning = _Row()
        if clear:
            self._winning.add(side)
        self._winner = winner
        if opinion is not None and abs(opinion) <= rules.draw_value:
            self._level.add(side)
        else:
            self._level = _Row()

    def verdict(self, game_history: GameHistory) -> tuple[int, str] | None:
        """(outcome for the first player, reason) if the game ends here."""
        rules = self._rules
        if rules.known is not None:
            value = rules.known(game_history)
            if value is not None:
                return outcome_for_first_player(value, game_history.side_to_move), TABLE
        if self._winning.has(rules.win_plies):
            return self._winner, WON
        if self._level.has(rules.draw_plies) and game_history.ply >= rules.draw_from:
            return 0, DRAWN
        return None


def known_results(game: Game) -> Callable[[GameHistory], int | None]:
    """Values for the side to move from the game's tables. Raises Fatal(CONFIG) for a game without tables."""
    probe = table_of(game, "--tables").probe

    def known(game_history: GameHistory) -> int | None:
        found = None if game_history.end_reason() else probe(game_history.state)
        return None if found is None else found.value

    return known
