"""Random games in step with python-chess: moves, positions, repetitions and ends must agree at every ply.

`PYTHONPATH=. .venv/bin/python tests/games/chess_agreement.py [GAMES]` plays them in two processes and prints
the seeds done; a second argument, the first seed, continues after a stop. Games start from the usual
position, from middle games and endgames in which the rare rules are near, and from random endgames. One
player in three prefers to move back, which makes repetitions. Games of chess960 start from each of its
positions in turn, or from a mixture of two without many of the men.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import chess
import numpy as np
import numpy.typing as npt

from azselfplay.games.chess import GAME as CHESS
from azselfplay.games.chess.chess960 import GAME as CHESS960
from azselfplay.games.chess.rules import MAX_LEGAL, earlier_occurrences
from azselfplay.games.spec import NO_ROOT, ONGOING, Game, Positions, State, outcome_for_first_player

MAX_PLIES = 220
GAMES_PER_TASK = 100
FEN_EVERY = 8
"""Texts are compared once in this number of plies; the words of states, at every ply."""

STARTS = (
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 w - - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
    "r3k2r/pppppppp/8/8/8/8/PPPPPPPP/R3K2R b KQkq - 12 20",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    "8/1P1k2P1/8/8/8/8/1p2K1p1/8 w - - 4 60",
    "8/8/8/4k3/8/3K4/7R/8 w - - 70 90",
    "8/5k2/8/2q5/8/8/3QK3/8 b - - 85 120",
    "8/3b1k2/8/8/8/2B5/3NK3/8 w - - 60 80",
    "8/p1p1p1p1/8/1P1P1P1P/1p1p1p1p/8/P1P1P1P1/K6k w - - 0 1",
    "k7/8/8/2pPp3/1pP1Pp2/8/8/7K w - c6 0 30",
)


class Disagreement(AssertionError):
    """The two implementations differ; the message names seed, position and both answers."""


def require(seed: int, board: Any, what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        text = board.fen() if isinstance(board, chess.Board) else board.sfen()
        raise Disagreement(f"seed {seed}, {text}: {what}: ours {ours}, the other program {theirs}")


def run(
    compare: Callable[[int, int], Counter[str]], games: int = 20_000, first_seed: int = 0, processes: int = 2
) -> dict[str, float]:
    """Compare `games` random games from `first_seed` on. Raises Disagreement at the first difference.
    `compare(first, end)` compares the games of seeds `first` to `end` - 1."""
    began, total = time.perf_counter(), Counter[str]()
    seeds = range(first_seed, first_seed + games, GAMES_PER_TASK)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        ends = [min(seed + GAMES_PER_TASK, first_seed + games) for seed in seeds]
        for end, met in zip(ends, pool.map(compare, seeds, ends), strict=True):
            total += met
            print(f"seeds to {end} agree: {dict(total)}", flush=True)
    return {**total, "seconds": round(time.perf_counter() - began, 1)}


def compare_games(first_seed: int, end_seed: int, game: Game = CHESS) -> Counter[str]:
    """Compare the games of seeds `first_seed` to `end_seed` - 1; return counts of plies, ends and rare
    moves."""
    return sum((compare_game(seed, game) for seed in range(first_seed, end_seed)), Counter())


def compare_game(seed: int, game: Game) -> Counter[str]:
    """Play one random game on both boards. Raises Disagreement."""
    rng, met = np.random.default_rng(seed), Counter(games=1)
    board = random_start_960(seed, rng) if game is CHESS960 else random_start(rng)
    positions: Positions = np.zeros((MAX_PLIES + 2, game.state_words), dtype=np.uint64)
    positions[0] = game.notation.state_from_text(board.fen(en_passant="legal"))
    actions = np.zeros(MAX_LEGAL, dtype=np.uint16)
    shuffler = int(rng.integers(3))
    for n in range(1, MAX_PLIES + 2):
        moves = _compare_position(seed, board, positions, n, actions, game)
        reason = _compare_end(seed, board, positions, n, len(moves))
        if reason != ONGOING or n > MAX_PLIES:
            met[game.reason_name(reason)] += 1
            break
        text = choose(board, sorted(moves), rng, likes_going_back=shuffler == n % 2)
        move = chess.Move.from_uci(text)
        met["plies"] += 1
        met["castling"] += board.is_castling(move)
        met["en_passant"] += board.is_en_passant(move)
        met["promotion"] += move.promotion is not None
        game.rules.play(positions[n - 1], moves[text], positions[n])
        board.push(move)
    return met


def random_start(rng: np.random.Generator) -> chess.Board:
    """Return the usual start, one of `STARTS`, or a board with a few random men."""
    kind = rng.random()
    if kind < 0.35:
        return chess.Board()
    if kind < 0.7:
        return chess.Board(STARTS[rng.integers(len(STARTS))])
    return _random_endgame(rng)


def random_start_960(seed: int, rng: np.random.Generator) -> chess.Board:
    """Return start position `seed` % 960, or a mixture of two without about half of the men."""
    board = chess.Board.from_chess960_pos(seed % 960)
    if rng.random() < 0.5:
        return board
    other = chess.Board.from_chess960_pos(int(rng.integers(960)))
    for square in chess.SquareSet(chess.BB_RANK_8):
        board.set_piece_at(square, other.piece_at(square))
    for square in chess.SquareSet(board.occupied & ~(board.kings | board.rooks)):
        if rng.random() < 0.5:
            board.remove_piece_at(square)
    board.castling_rights = board.rooks
    return board if board.is_valid() else random_start_960(seed, rng)


def state_of(board: chess.Board) -> State:
    """Return the nine words of a python-chess board, computed without our own reader."""
    clean = board.clean_castling_rights()
    flags = 0 if board.turn else 1
    for bit, colour in ((1, chess.WHITE), (3, chess.BLACK)):
        flags |= board.has_kingside_castling_rights(colour) << bit
        flags |= board.has_queenside_castling_rights(colour) << bit + 1
    if board.chess960:
        flags |= (clean & 0xFF) << 48 | clean >> 56 << 56
    if board.ep_square is not None and board.has_legal_en_passant():
        flags |= chess.square_file(board.ep_square) + 1 << 5
    flags |= board.halfmove_clock << 16 | board.ply() << 32
    men = (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
    return np.array([*men, *map(int, board.occupied_co[::-1]), flags], dtype=np.uint64)


def expected_reason(board: chess.Board, legal_count: int) -> str:
    """Return python-chess's reason for the end of the game, checked in the order of our rules."""
    if not legal_count:
        return "checkmate" if board.is_check() else "stalemate"
    if board.is_insufficient_material():
        return "insufficient_material"
    if board.is_fifty_moves():
        return "fifty_moves"
    return "threefold_repetition" if board.is_repetition(3) else "ongoing"


def _random_endgame(rng: np.random.Generator) -> chess.Board:
    """Return a legal position of two kings and one to eight other men, many of them pawns, with random
    counters."""
    while True:
        board = chess.Board(None)
        squares = [int(square) for square in rng.permutation(64)]
        for colour in chess.COLORS:
            board.set_piece_at(squares.pop(), chess.Piece(chess.KING, colour))
        for _ in range(rng.integers(1, 9)):
            kind = int(rng.choice([1, 1, 1, 2, 3, 4, 5]))
            board.set_piece_at(squares.pop(), chess.Piece(kind, bool(rng.integers(2))))
        board.turn = bool(rng.integers(2))
        board.halfmove_clock = int(rng.choice([0, 0, 40, 80, 95]))
        board.fullmove_number = int(rng.integers(1, 200))
        if board.is_valid():
            return board


def choose(board: chess.Board, moves: list[str], rng: np.random.Generator, likes_going_back: bool) -> str:
    """Return a random move, preferably a castling or en passant; with `likes_going_back`, often a move
    back."""
    if board.castling_rights or board.ep_square:
        parsed = {move: chess.Move.from_uci(move) for move in moves}
        rare = [uci for uci, move in parsed.items() if board.is_castling(move) or board.is_en_passant(move)]
        if rare and rng.random() < 0.5:
            return rare[rng.integers(len(rare))]
    if likes_going_back and len(board.move_stack) >= 2 and rng.random() < 0.8:
        last = board.move_stack[-2]
        back = chess.square_name(last.to_square) + chess.square_name(last.from_square)
        if back in moves:
            return back
    return moves[rng.integers(len(moves))]


def _compare_position(
    seed: int, board: chess.Board, positions: Positions, n: int, actions: npt.NDArray[np.uint16], game: Game
) -> dict[str, int]:
    """Compare words, text and legal moves. Return the moves: UCI text -> action."""
    state, notation = positions[n - 1], game.notation
    require(seed, board, "words", list(map(hex, state)), list(map(hex, state_of(board))))
    if n % FEN_EVERY == 1:
        expected = board.fen(shredder=board.chess960, en_passant="legal")
        require(seed, board, "text", notation.state_to_text(state), expected)
        # In chess960, the letters KQkq are read too.
        for text in (expected, board.fen(en_passant="legal")):
            require(seed, board, "state of the text", list(notation.state_from_text(text)), list(state))
    count = game.rules.legal_actions(positions, n, actions)
    moves = {notation.action_to_text(state, int(action)): int(action) for action in actions[:count]}
    require(seed, board, "number of different moves", len(set(moves.values())), count)
    require(seed, board, "legal moves", sorted(moves), sorted(move.uci() for move in board.legal_moves))
    return moves


def _compare_end(seed: int, board: chess.Board, positions: Positions, n: int, legal_count: int) -> int:
    """Compare repetitions, end reason, the search's earlier end, and outcome. Return the end reason."""
    repeated = (board.is_repetition(2), board.is_repetition(3))
    earlier = earlier_occurrences(positions, n, NO_ROOT)
    require(seed, board, "repetitions", (earlier >= 1, earlier >= 2), repeated)
    reason: int = CHESS.rules.end_reason(positions, n, legal_count, NO_ROOT)
    expected = expected_reason(board, legal_count)
    require(seed, board, "end reason", CHESS.reason_name(reason), expected)
    in_search = CHESS.reason_name(CHESS.rules.end_reason(positions, n, legal_count, 0))
    if expected == "ongoing" and repeated[0]:
        expected = "threefold_repetition"
    require(seed, board, "end reason in a search", in_search, expected)
    if reason != ONGOING:
        value = CHESS.end_reasons[reason].value
        outcome = outcome_for_first_player(value, CHESS.rules.side_to_move(positions[n - 1]))
        ended = board.outcome()
        winner = ended.winner if ended else None
        require(seed, board, "outcome", outcome, 0 if winner is None else 1 if winner else -1)
    return reason


if __name__ == "__main__":
    print(run(compare_games, *map(int, sys.argv[1:3])))
