"""Games of shogi as CSA files (the Computer Shogi Association's standard, version 2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from games.bits import ONE
from games.knowledge import WrittenMove
from games.shogi.actions import DROP_PLANE, squares_of
from games.shogi.layout import REST, STATE_WORDS, WHITES, code_at, codes_of
from games.shogi.notation import action_from_usi
from games.shogi.play import play
from games.shogi.sfen import hand_counts, state_from_sfen
from games.spec import State

PIECE_NAMES = ("", "FU", "KY", "KE", "GI", "KI", "KA", "HI", "OU", "TO", "NY", "NK", "NG", "", "UM", "RY")
"""CSA's names by code."""
BETWEEN_GAMES = "/\n"


def csa(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
    """A game in CSA's format; where CSA has no word for how it ended, that is `%CHUDAN`, broken off. Raises
    ValueError if a move is invalid.

    tags: as in PGN; White is the first player, which is Black (sente) in shogi. moves: in USI; moves other
    than those played become comments, because CSA has no variations. ending: comment after the last move. How
    the game ended is the tag Termination, or else the beginning of this comment.
    """
    state = state_from_sfen(start)
    moves = up_to_resignation(tags, state, moves)
    lines = ["V2.2", f"N+{tags.get('White', '')}", f"N-{tags.get('Black', '')}"]
    lines += [f"${name.upper()}:{tags[name]}" for name in ("Event", "Site") if name in tags]
    lines += _position(state)
    for one in moves:
        line, state = _played(state, one.move)
        lines += [line, *_comments(remarks(one))]
    reasons = (tags.get("Termination", ""), ending.partition(":")[0])
    return "\n".join([*lines, _end(state, reasons), *_comments(ending)])


def side_to_move(state: State) -> int:
    """0: Black, the first player."""
    return int(state[REST] & ONE)


def remarks(one: WrittenMove) -> str:
    """The comment of a move, and a line for each alternative move."""
    return "\n".join([*filter(None, [one.comment]), *(f"{move} {comment}" for move, comment in one.others)])


def up_to_resignation(
    tags: Mapping[str, str], start: State, moves: Sequence[WrittenMove]
) -> Sequence[WrittenMove]:
    """The moves up to a resignation. In self-play a side resigns together with its move, which game files
    cannot express, so that move is left out."""
    winner = {"1-0": 0, "0-1": 1}.get(tags.get("Result", ""))
    is_after_it = winner is not None and winner == side_to_move(start) ^ (len(moves) & 1)
    return moves[:-1] if tags.get("Termination") == "resignation" and is_after_it else moves


def _end(state: State, reasons: Sequence[str]) -> str:
    """The line that says how the game ended in `state`."""
    mover, other = ("-", "+") if state[REST] & ONE else ("+", "-")
    ends = {
        "mate": "%TSUMI",
        "repetition": "%SENNICHITE",
        "perpetual_check_given": f"%{mover}ILLEGAL_ACTION",
        "perpetual_check_suffered": f"%{other}ILLEGAL_ACTION",
        "declaration": "%KACHI",
        "resignation": "%TORYO",
    }
    return next((ends[reason] for reason in reasons if reason in ends), "%CHUDAN")


def _position(state: State) -> list[str]:
    """The board rank by rank, the hands, and the side to move."""
    pieces = [f"{'-' if code >= WHITES else '+'}{PIECE_NAMES[code % WHITES]}" for code in codes_of(state)]
    squares = [piece if len(piece) > 1 else " * " for piece in pieces]
    lines = [f"P{rank + 1}{''.join(squares[rank::9][::-1])}" for rank in range(9)]
    for side, sign in enumerate("+-"):
        held = "".join(f"00{PIECE_NAMES[kind]}" * count for kind, count in hand_counts(state, side).items())
        lines += [f"P{sign}{held}"] if held else []
    return [*lines, "-" if state[REST] & ONE else "+"]


def _played(state: State, usi: str) -> tuple[str, State]:
    """The line of a move, and the position after it. Raises ValueError if it is not legal."""
    action, child = action_from_usi(state, usi), np.zeros(STATE_WORDS, np.uint64)
    play(state, action, child)
    origin, target, plane = squares_of(action, state[REST] & ONE)
    left = "00" if plane >= DROP_PLANE else _numbers(origin)
    piece = PIECE_NAMES[int(code_at(child, target)) % WHITES]
    return f"{'-' if state[REST] & ONE else '+'}{left}{_numbers(target)}{piece}", child


def _numbers(square: int) -> str:
    """ "77" for 7g."""
    return f"{square // 9 + 1}{square % 9 + 1}"


def _comments(text: str) -> list[str]:
    return [f"'{line}" for line in text.splitlines()]
