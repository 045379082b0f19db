"""The position that a GUI has set. It is extended, not played again, when the new moves extend the old."""

from __future__ import annotations

from engine.uci.protocol import Position, shown
from games.game_history import GameHistory
from games.spec import Game

MOST_PLIES = 6_000
"""Moves of one game. The longest tournament game had 538."""


class OpenGame(GameHistory):
    """A game that goes on after a draw: the GUI decides whether to claim it, not the engine."""

    def play(self, action: int) -> None:
        """Play an action. ValueError if it is not legal."""
        if action not in self.legal_actions():
            raise ValueError(f"action {action} is not legal here")
        self._append(action)


class Board:
    """The last valid position."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.game_history = OpenGame(game)
        self._moves: tuple[str, ...] = ()

    def set(self, position: Position) -> None:
        """Set a position. ValueError, and the old one stays, if it is impossible or a move is not legal."""
        if len(position.moves) > MOST_PLIES:
            raise ValueError(f"a game of {len(position.moves)} moves; at most {MOST_PLIES} are taken")
        known = len(self._moves)
        if position.fen == self.game_history.start and position.moves[:known] == self._moves:
            self._extend(self.game_history, position.moves, known)
        else:
            game_history = OpenGame(self.game, position.fen)
            self._extend(game_history, position.moves, 0)
            self.game_history = game_history
        self._moves = position.moves

    def _extend(self, game_history: OpenGame, moves: tuple[str, ...], known: int) -> None:
        try:
            for number in range(known, len(moves)):
                game_history.play_text(moves[number])
        except ValueError as error:
            del game_history.actions[known:]
            raise ValueError(f"move {number + 1}, {shown(moves[number])}: {error}") from error
