"""A game as a controller sets it up."""

from __future__ import annotations

from games.game_history import GameHistory

MOST_PLIES = 6_000
"""Most moves of one game. The longest tournament game of chess had 538."""


class OpenGame(GameHistory):
    """A game that may continue after an end by the rules: the controller decides whether it is over."""

    def play(self, action: int) -> None:
        """Play an action. Raises ValueError if it is not legal, or the game is too long."""
        if self.ply >= MOST_PLIES:
            raise ValueError(f"a game has at most {MOST_PLIES} moves here")
        if action not in self.legal_actions():
            raise ValueError(f"action {action} is not legal here")
        self._append(action)

    def take_back(self, ply: int) -> None:
        """Return to the position after the first `ply` moves."""
        del self.actions[ply:]
