"""The position that the GUI has set. If the new moves extend the old ones, it is extended rather than
replayed."""

from __future__ import annotations

from engine.core.open_game import MOST_PLIES, OpenGame
from engine.core.options import shown
from engine.uci.protocol import Position
from games.spec import Game


class Board:
    """The last valid position, and why a later one was refused."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.game_history = OpenGame(game)
        self.refusal = ""
        """Why the GUI's position is unknown; empty: it is that of `game_history`."""
        self._moves: tuple[str, ...] = ()

    def set(self, position: Position) -> None:
        """Set a position. Raises ValueError, and keeps the old one, if it is impossible or a move is not
        legal."""
        if len(position.moves) > MOST_PLIES:
            raise ValueError(f"a game of {len(position.moves)} moves; at most {MOST_PLIES} are taken")
        known = len(self._moves)
        if position.start == self.game_history.start and position.moves[:known] == self._moves:
            self._extend(self.game_history, position.moves, known)
        else:
            game_history = OpenGame(self.game, position.start)
            self._extend(game_history, position.moves, 0)
            self.game_history = game_history
        self._moves = position.moves
        self.refusal = ""

    def _extend(self, game_history: OpenGame, moves: tuple[str, ...], known: int) -> None:
        try:
            for number in range(known, len(moves)):
                game_history.play_text(moves[number])
        except ValueError as error:
            game_history.take_back(known)
            raise ValueError(f"move {number + 1}, {shown(moves[number])}: {error}") from error
