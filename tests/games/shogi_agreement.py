"""Random games in step with cshogi: pieces, hands, legal moves, checks, repetitions and declarations must
agree at every ply.

`PYTHONPATH=. .venv/bin/python tests/games/shogi_agreement.py [GAMES] [FIRST_SEED]` plays them in two
processes and prints the seeds done. Games start from the usual position, from positions in which the rare
rules are near, and from random ones. Some players prefer to move back, which makes repetitions, and some
prefer to give check.
"""

import sys
from collections import Counter

import cshogi
import numpy as np
import numpy.typing as npt
from chess_agreement import require, run
from naive_shogi import plain_action

from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.board import BISHOP, GOLD, KING, KNIGHT, LANCE, PAWN, ROOK, SILVER, codes_of
from azselfplay.games.shogi.game_end import (
    MATE,
    PERPETUAL_CHECK_GIVEN,
    PERPETUAL_CHECK_SUFFERED,
    REPETITION,
    can_declare,
    in_check,
)
from azselfplay.games.shogi.notation import hand_counts
from azselfplay.games.spec import NO_ROOT

MAX_PLIES = 220
TEXT_EVERY = 8
"""Texts are compared once in this number of plies; their contents, at every ply."""

STARTS = (
    "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1",
    "7lk/9/8S/9/9/9/9/7L1/8K b P 1",
    "7k1/9/9/9/l2s5/6snb/9/9/8K b 2G 1",
    "9/9/9/3k5/9/5K3/9/9/9 b RB2G2S2N2L9Prb2g2s2n2l9p 1",
    "lnsgk1snl/6g2/p1ppppb2/6R1p/9/1rP6/P2PPPP1P/1BG6/LNS1KGSNL w 3P2p 17",
    "4k4/9/1PPPPPPP1/9/9/9/1ppppppp1/9/4K4 b RB2G2S2N2Lrb2g2s2n2l 1",
    "4k4/9/4G4/9/9/9/9/4R4/4K4 b Prb3g4s4n4l17p 1",
    "k8/9/9/9/9/9/9/1R7/8K b 2Prb4g4s4n4l16p 1",
    "7nl/7k1/6ppp/9/9/9/PPP6/1K7/LN7 b R2B4G4S2Pr2n2l10p 1",
    "2K4+B1/1+PGGS+P+N2/+P+PS+P+L4/9/9/9/+l4p+s2/+p+p+n1ggs2/1+b4k2 b RNL2Prnlp 201",
)

_PIECES_OF_CSHOGI = {
    PAWN: cshogi.BPAWN, LANCE: cshogi.BLANCE, KNIGHT: cshogi.BKNIGHT, SILVER: cshogi.BSILVER,
    GOLD: cshogi.BGOLD, BISHOP: cshogi.BBISHOP, ROOK: cshogi.BROOK, KING: cshogi.BKING,
}  # fmt: skip
"""cshogi's pieces by our codes; both add 8 for a promoted piece, and 16 for one of White's."""
_CODE_OF = {
    theirs + more: ours + more for ours, theirs in _PIECES_OF_CSHOGI.items() for more in (0, 8, 16, 24)
} | {0: 0}
_REPETITION_OF = {
    cshogi.REPETITION_DRAW: REPETITION,
    cshogi.REPETITION_WIN: PERPETUAL_CHECK_SUFFERED,
    cshogi.REPETITION_LOSE: PERPETUAL_CHECK_GIVEN,
}
"""cshogi also reports boards that come again with more or fewer pieces in hand, and reports them first even
where the same hands come again too. Our rules ignore them."""


def compare_games(first_seed: int, end_seed: int) -> Counter[str]:
    """Compare the games of seeds `first_seed` to `end_seed` - 1; return counts of plies, ends and rare
    moves."""
    return sum((compare_game(seed) for seed in range(first_seed, end_seed)), Counter())


def compare_game(seed: int) -> Counter[str]:
    """Play one random game on both boards. Raises Disagreement."""
    rng, met = np.random.default_rng(seed), Counter(games=1)
    board = cshogi.Board(random_start(rng))
    positions = np.zeros((MAX_PLIES + 2, GAME.state_words), dtype=np.uint64)
    positions[0] = GAME.notation.state_from_text(board.sfen())
    shufflers, checkers, keys = rng.integers(2, size=2), rng.integers(3, size=2) == 0, list[object]()
    for n in range(1, MAX_PLIES + 2):
        keys.append((board.zobrist_hash(), str(board.pieces_in_hand)))
        moves = _compare_position(seed, board, positions, n)
        reason = _compare_end(seed, board, positions, n, len(moves), keys)
        if keys.count(keys[-1]) == 2:
            met[f"second: {GAME.reason_name(GAME.rules.end_reason(positions, n, len(moves), 0))}"] += 1
        met["declarations"] += board.is_nyugyoku()
        if reason or n > MAX_PLIES:
            met[GAME.reason_name(reason)] += 1
            break
        move = _choose(board, list(moves), rng, bool(shufflers[n % 2]), bool(checkers[n % 2]))
        met["plies"] += 1
        met["drops"] += cshogi.move_is_drop(move)
        met["promotions"] += cshogi.move_is_promotion(move)
        GAME.rules.play(positions[n - 1], moves[move], positions[n])
        board.push(move)
    return met


def random_start(rng: np.random.Generator) -> str:
    """Return the usual start, one of `STARTS`, or kings with some pieces on the board and the others in
    hand."""
    kind = rng.random()
    if kind < 0.4:
        return cshogi.STARTING_SFEN
    if kind < 0.7:
        return STARTS[rng.integers(len(STARTS))]
    while True:
        text = _random_position(rng)
        try:
            GAME.notation.state_from_text(text)
        except ValueError:
            continue
        return text


def _random_position(rng: np.random.Generator) -> str:
    """Return a random position, which may be illegal."""
    squares = [""] * 81
    places = [int(square) for square in rng.permutation(81)]
    squares[places.pop()], squares[places.pop()] = "K", "k"
    hands: Counter[str] = Counter()
    share = rng.random()
    for letter in "P" * 18 + "LNSG" * 4 + "BR" * 2:
        piece = letter if rng.random() < 0.5 else letter.lower()
        if rng.random() < share:
            hands[piece] += 1
        else:
            squares[places.pop()] = ("+" if letter != "G" and rng.random() < 0.4 else "") + piece
    rows = ["".join(piece or "1" for piece in squares[9 * row : 9 * row + 9]) for row in range(9)]
    held = "".join(f"{count if count > 1 else ''}{piece}" for piece, count in hands.items())
    return f"{'/'.join(rows)} {'bw'[rng.integers(2)]} {held or '-'} {rng.integers(1, 200)}"


def _choose(
    board: cshogi.Board,
    moves: list[int],
    rng: np.random.Generator,
    likes_going_back: bool,
    likes_checks: bool,
) -> int:
    """Return a random move; players with such a preference mostly go back or give check."""
    if likes_checks and rng.random() < 0.85:
        moves = [move for move in moves if _checks(board, move)] or moves
    if likes_going_back and len(board.history) >= 2 and rng.random() < 0.85:
        last = board.history[-2]
        squares = cshogi.move_to(last), cshogi.move_from(last)
        moves = [move for move in moves if (cshogi.move_from(move), cshogi.move_to(move)) == squares] or moves
    return moves[rng.integers(len(moves))]


def _checks(board: cshogi.Board, move: int) -> bool:
    board.push(move)
    check: bool = board.is_check()
    board.pop()
    return check


_ACTION_OF: dict[tuple[int, bool], int] = {}
"""(the low 16 bits of a cshogi move, whether White moves) -> our action, by the plain scheme."""


def _action_of(move: int, white: bool) -> int:
    key = (cshogi.move16(move), white)
    if key not in _ACTION_OF:
        _ACTION_OF[key] = plain_action(cshogi.move_to_usi(move), white)
    return _ACTION_OF[key]


def _compare_position(
    seed: int, board: cshogi.Board, positions: npt.NDArray[np.uint64], n: int
) -> dict[int, int]:
    """Compare pieces, hands, text, check and legal moves. Return the moves: cshogi's -> action."""
    state = positions[n - 1]
    require(seed, board, "pieces", codes_of(state), [_CODE_OF[piece] for piece in board.pieces])
    theirs = [list(hand) for hand in board.pieces_in_hand]
    ours = [list(hand_counts(state, side).values()) for side in range(2)]
    require(seed, board, "hands", ours, theirs)
    require(seed, board, "check", bool(in_check(state)), board.is_check())
    require(seed, board, "declaration", bool(can_declare(state)), board.is_nyugyoku())
    if n % TEXT_EVERY == 1:
        text = GAME.notation.state_to_text(state)
        require(seed, board, "text", text, board.sfen())
        require(seed, board, "state of the text", list(GAME.notation.state_from_text(text)), list(state))
    actions = np.zeros(GAME.max_legal, dtype=np.uint16)
    count = GAME.rules.legal_actions(positions, n, actions)
    white = board.turn == cshogi.WHITE
    moves = {move: _action_of(move, white) for move in board.legal_moves}
    require(seed, board, "legal moves", sorted(actions[:count].tolist()), sorted(moves.values()))
    return moves


def _compare_end(
    seed: int,
    board: cshogi.Board,
    positions: npt.NDArray[np.uint64],
    n: int,
    legal_count: int,
    keys: list[object],
) -> int:
    """Compare mate, fourfold repetition, and how a search ends at a second occurrence. Return the end
    reason."""
    reason: int = GAME.rules.end_reason(positions, n, legal_count, NO_ROOT)
    in_search: int = GAME.rules.end_reason(positions, n, legal_count, 0)
    times = keys.count(keys[-1])
    require(seed, board, "mate", reason == MATE, board.is_game_over())
    if legal_count:
        require(seed, board, "fourth occurrence", reason != 0, times >= 4)
        expected = _REPETITION_OF.get(board.is_draw()) if times > 1 else 0
        if times <= 2 and expected is not None:
            require(seed, board, "end in a search", in_search, expected)
    return reason


if __name__ == "__main__":
    print(run(compare_games, *map(int, sys.argv[1:3])))
