"""Slow twins of the jitted searches: plain minimax over the rules; evaluations by python-chess or by counting
on the board."""

from collections.abc import Callable

import chess
import numpy as np

from azselfplay.games.spec import NO_ROOT, Game

WIN, QUIESCENCE = 1_000_000, 8
PIECES = {chess.PAWN: 100, chess.KNIGHT: 320, chess.BISHOP: 330, chess.ROOK: 500, chess.QUEEN: 900}
WINDOW_WEIGHTS = [0, 1, 4, 16]

Evaluate = Callable[[Game, np.ndarray], int]
Noisy = Callable[[Game, np.ndarray, int], bool]


def minimax(
    game: Game, states: list[np.ndarray], ply: int, depth: int, evaluate: Evaluate, noisy: Noisy
) -> int:
    """Return the value of the last state, `ply` plies below the root. Below depth 0 only noisy moves are
    searched, or none at all."""
    actions, positions = np.zeros(game.max_legal, np.uint16), np.array(states)
    count = game.rules.legal_actions(positions, len(states), actions)
    reason = game.rules.end_reason(positions, len(states), count, len(states) - 1 - ply)
    if reason:
        return game.end_reasons[reason].value * (WIN - ply)
    legal = [int(action) for action in actions[:count]]
    best = None
    if depth <= 0:
        best = evaluate(game, states[-1])
        legal = [one for one in legal if noisy(game, states[-1], one)] if depth > -QUIESCENCE else []
    for action in legal:
        child = np.zeros_like(states[-1])
        game.rules.play(states[-1], action, child)
        value = minimax(game, [*states, child], ply + 1, depth - 1, evaluate, noisy)
        value = value if same_mover(game, states[-1], child) else -value
        best = value if best is None else max(best, value)
    assert best is not None
    return best


def same_mover(game: Game, state: np.ndarray, child: np.ndarray) -> bool:
    return int(game.rules.side_to_move(state)) == int(game.rules.side_to_move(child))


def chess_value(game: Game, state: np.ndarray) -> int:
    """Return material plus two centipawns for each attacked square, by python-chess."""
    board = chess.Board(game.notation.state_to_text(state))
    total = 0
    for square, piece in board.piece_map().items():
        worth = PIECES.get(piece.piece_type, 0)
        if piece.piece_type not in (chess.PAWN, chess.KING):
            worth += 2 * len(board.attacks(square))
        total += worth if piece.color == board.turn else -worth
    return total


def chess_noisy(game: Game, state: np.ndarray, action: int) -> bool:
    board = chess.Board(game.notation.state_to_text(state))
    move = chess.Move.from_uci(game.notation.action_to_text(state, action))
    return board.is_capture(move) or move.promotion is not None


def windows_value(game: Game, state: np.ndarray) -> int:
    """Return the value from counting windows on the board as it is written."""
    length = {"tic_tac_toe": 3, "connect_four": 4}[game.name]
    rows = game.notation.state_to_text(state).split("/")
    mine, his = "xo" if int(state[2]) % 2 == 0 else "ox"
    total = 0
    for row in range(game.rows):
        for col in range(game.cols):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(row + down * k, col + right * k) for k in range(length)]
                if all(0 <= r < game.rows and 0 <= c < game.cols for r, c in cells):
                    text = "".join(rows[r][c] for r, c in cells)
                    if his not in text:
                        total += WINDOW_WEIGHTS[text.count(mine)]
                    if mine not in text:
                        total -= WINDOW_WEIGHTS[text.count(his)]
    return total


def greedy_score(game: Game, states: list[np.ndarray], action: int) -> int:
    """Return what an action is worth to the player who looks no further than a win with the next move, in a
    game without a score."""
    child = np.zeros_like(states[-1])
    game.rules.play(states[-1], action, child)
    sign = 1 if same_mover(game, states[-1], child) else -1
    value, replies = end_of(game, [*states, child])
    if value is not None:
        return sign * value * WIN
    for reply in replies:
        last = np.zeros_like(child)
        game.rules.play(child, reply, last)
        # A reply that decides the game wins, even if the rules let the game go on.
        after, _ = end_of(game, [*states, child, last], root=len(states) + 1)
        if after is not None and (after if same_mover(game, child, last) else -after) > 0:
            return sign * WIN
    return 0


def end_of(game: Game, states: list[np.ndarray], root: int = NO_ROOT) -> tuple[int | None, list[int]]:
    """Return the value of the last state for its side to move (None while the game goes on) and its legal
    actions. `root` as in `Rules.end_reason`."""
    actions, positions = np.zeros(game.max_legal, np.uint16), np.array(states)
    count = game.rules.legal_actions(positions, len(states), actions)
    reason = game.rules.end_reason(positions, len(states), count, root)
    return game.end_reasons[reason].value if reason else None, actions[:count].tolist()


def nothing(game: Game, state: np.ndarray) -> int:
    return 0


def never(game: Game, state: np.ndarray, action: int) -> bool:
    return False
