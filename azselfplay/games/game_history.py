"""A game from its start: all positions, the actions between them, and the board and moves as text.

Used by players, analysis and match records.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import NO_ROOT, PLY_CAP, Game, Positions, State, outcome_for_first_player


class GameHistory:
    """Positions from a start position on, and the actions between them.

    `start` is in the game's notation ("" is the usual start). Raises ValueError if it cannot be read.
    """

    def __init__(self, game: Game, start: str = "", max_plies: int = 0) -> None:
        self.game = game
        self.start = start
        self.max_plies = max_plies or game.max_plies
        self.draws_end = True
        """Whether draws by the rules end the game. People go on if nobody claims them."""
        self.actions: list[int] = []
        # Enough for many games; `_append` makes room for longer ones.
        self._states = np.zeros((64, game.state_words), np.uint64)
        self._states[0] = game.notation.state_from_text(start)

    @property
    def ply(self) -> int:
        """Number of moves played."""
        return len(self.actions)

    @property
    def states(self) -> Positions:
        """uint64[ply + 1, state_words], a view."""
        return self._states[: self.ply + 1]

    @property
    def state(self) -> State:
        """The position now."""
        position: State = self._states[self.ply]
        return position

    @property
    def side_to_move(self) -> int:
        """0 for the first player, 1 for the second."""
        return int(self.game.rules.side_to_move(self.state))

    def up_to(self, ply: int) -> GameHistory:
        """Return a copy of the game after its first `ply` moves."""
        part = copy.copy(self)
        part.actions, part._states = self.actions[:ply], self._states[: ply + 1].copy()
        return part

    def legal_actions(self) -> npt.NDArray[np.uint16]:
        """Return [n] the legal actions, in the order of the rules."""
        actions = np.zeros(self.game.max_legal, np.uint16)
        return actions[: self.game.rules.legal_actions(self._states, self.ply + 1, actions)]

    def play(self, action: int) -> None:
        """Play an action. Raises ValueError if it is not legal or the game is over."""
        reason = self.end_reason()
        if reason is not None and (self.draws_end or reason == PLY_CAP or self.outcome() != 0):
            raise ValueError(f"the game is over ({reason})")
        if action not in self.legal_actions():
            raise ValueError(f"action {action} is not legal here")
        self._append(action)

    def _append(self, action: int) -> None:
        # The rules read all positions of a game from one array, so a full array is replaced by one twice as
        # large.
        if self.ply + 2 > len(self._states):
            self._states = np.concatenate([self._states, np.zeros_like(self._states)])
        self.game.rules.play(self._states[self.ply], action, self._states[self.ply + 1])
        self.actions.append(action)

    def play_text(self, move: str) -> None:
        """Play a move in the game's notation. Raises ValueError as `play` does."""
        action = self.game.notation.action_from_text(self.state, move)
        if action not in self.legal_actions():  # the notation knows no earlier positions (superko)
            raise ValueError("not legal: it repeats an earlier position")
        self.play(action)

    def moves_text(self) -> list[str]:
        """Return all moves in the game's notation."""
        notation = self.game.notation
        return [
            notation.action_to_text(state, action)
            # Not strict: there are more positions than moves, and free room behind them.
            for state, action in zip(self._states, self.actions, strict=False)
        ]

    def end_reason(self) -> str | None:
        """Return why the game is over; None while it continues."""
        index = self._end_index()
        if index:
            return self.game.reason_name(index)
        # The rules come first: if they end the game on its last ply, their result counts.
        return PLY_CAP if self.ply >= self.max_plies else None

    def outcome(self) -> int:
        """Return the result of a finished game for the first player: +1, 0 or -1."""
        return outcome_for_first_player(self.game.end_reasons[self._end_index()].value, self.side_to_move)

    def score(self) -> float | None:
        """Return the margin by which the first player has won (`Game.score`). None unless the rules have
        ended the game and the game has a score."""
        count = self.game.score
        return None if count is None or not self._end_index() else count(self.state)

    def _end_index(self) -> int:
        count = len(self.legal_actions())
        return int(self.game.rules.end_reason(self._states, self.ply + 1, count, NO_ROOT))


def replay(
    game: Game,
    start: str = "",
    moves: Sequence[str] = (),
    max_plies: int = 0,
    play: Callable[[GameHistory, str], None] = GameHistory.play_text,
    *,
    draws_end: bool = True,
) -> GameHistory:
    """Return the game after `moves`. Raises ValueError naming the move that is not legal and its number.

    max_plies: cap on the length of the game; 0: the game's own. play: reads and plays one move. draws_end:
    whether no move of `moves` may follow a draw by the rules; later moves may not.
    """
    game_history = GameHistory(game, start, max_plies)
    game_history.draws_end = draws_end
    for number, move in enumerate(moves, 1):
        try:
            play(game_history, move)
        except ValueError as error:
            raise ValueError(f"move {number} ({move!r}): {error}") from error
    game_history.draws_end = True
    return game_history


# ---- Text ----------------------------------------------------------------------------------------


TO_MOVE = re.compile(r"\S+ to move\b")


def board_text(game: Game, state: State, *, is_over: bool) -> str:
    """Return the board of a position, without empty lines. If the game is over, the line that begins with "x
    to move" is left out; `render` cannot do that, because it sees only the position."""
    lines = game.notation.render(state).splitlines()
    shown = [line.rstrip() for line in lines if line.strip()]
    return "\n".join(line for line in shown if not (is_over and TO_MOVE.match(line)))


LISTED = 12
"""Most legal moves in a message."""


def legal_action(
    text: str, action: int, legal: Sequence[int], to_text: Callable[[int], str], said: Callable[[], str]
) -> int:
    """Return `action`, the meaning of `text`, if it is legal and is written that way.

    Raises ValueError listing the legal moves that begin or end like `text`, or else all. said() describes how
    moves are written, and names the position.
    """
    if action in legal and to_text(action) == text:
        return action
    moves = sorted(map(to_text, legal))
    # Probably a move with the same beginning (the same piece) or else with the same end was meant.
    near = [move for move in moves if move[:2] == text[:2]]
    near = near or [move for move in moves if move[-2:] == text[-2:]] or moves
    listed = ", ".join(near[:LISTED]) or "none: the game is over"
    if len(near) > LISTED:
        listed += f" and {len(near) - LISTED} more"
    raise ValueError(f"{text!r} is not a legal move ({said()}); legal: {listed}")
