"""Slow, obvious twins of the solvers: plain minimax over the rules, no bitboards, no tables, no pruning."""

from azselfplay.games.spec import Game, State

Result = tuple[int, int]
"""Value for the side to move, plies until the end."""


def best_result(results: list[Result]) -> Result:
    """Return the best of the results after each move, for the side that moves: quick wins, slow losses."""
    return max(((value, plies + 1) for value, plies in results), key=lambda one: (one[0], -one[0] * one[1]))


def minimax(game: Game, state: State, seen: dict[bytes, Result]) -> Result:
    """Return value and length of the game with best play. Only visited positions are remembered."""
    if state.tobytes() not in seen:
        ended = game.end_value(state)
        if ended is not None:
            return ended, 0
        after = [minimax(game, game.after(state, action), seen) for action in game.legal_list(state)]
        seen[state.tobytes()] = best_result([(-value, plies) for value, plies in after])
    return seen[state.tobytes()]
