"""Slow, obvious twins of the solvers: plain minimax over the rules, no bitboards, no tables, no pruning."""

import chess
import numpy as np

from azselfplay.games.spec import NO_ROOT, Game, State

Result = tuple[int, int]
"""Value for the side to move, plies until the end."""


def legal_of(game: Game, state: State) -> list[int]:
    actions = np.zeros(game.max_legal, np.uint16)
    return [int(a) for a in actions[: game.rules.legal_actions(state.reshape(1, -1), 1, actions)]]


def end_value(game: Game, state: State, legal: list[int]) -> int | None:
    """Return the value for the side to move if the game is over, else None."""
    reason = game.rules.end_reason(state.reshape(1, -1), 1, len(legal), NO_ROOT)
    return game.end_reasons[reason].value if reason else None


def best_result(results: list[Result]) -> Result:
    """Return the best of the results after each move, for the side that moves: quick wins, slow losses."""
    return max(((value, plies + 1) for value, plies in results), key=lambda one: (one[0], -one[0] * one[1]))


def minimax(game: Game, state: State, seen: dict[bytes, Result]) -> Result:
    """Return value and length of the game with best play. Only visited positions are remembered."""
    if state.tobytes() not in seen:
        legal = legal_of(game, state)
        ended = end_value(game, state, legal)
        if ended is not None:
            return ended, 0
        after = [minimax(game, game.after(state, action), seen) for action in legal]
        seen[state.tobytes()] = best_result([(-value, plies) for value, plies in after])
    return seen[state.tobytes()]


def mates_within(board: chess.Board, plies: int) -> bool:
    """Return whether the side to move of a python-chess board can force mate within `plies` half-moves."""
    for move in board.legal_moves:
        board.push(move)
        found = board.is_checkmate() or (plies > 2 and _is_lost(board, plies - 1))
        board.pop()
        if found:
            return True
    return False


def _is_lost(board: chess.Board, plies: int) -> bool:
    moves = list(board.legal_moves)
    for move in moves:
        board.push(move)
        found = mates_within(board, plies - 1)
        board.pop()
        if not found:
            return False
    return bool(moves)
