"""A search's results in the words of UCI and USI."""

from __future__ import annotations

import math
from collections.abc import Iterable

from engine.core.report import Found, Line, Report
from engine.uci.dialect import Dialect

CENTIPAWN_SCALE, CENTIPAWN_BEND = 90.0, 1.5637541897
"""lc0's formula of versions 0.20 to 0.29: 90 tan(1.5637541897 value); a value of 0.5 is 89 centipawns."""


def centipawns(value: float) -> int:
    """A value in [-1, 1] in centipawns; +-12,780 at the ends."""
    return round(CENTIPAWN_SCALE * math.tan(CENTIPAWN_BEND * max(-1.0, min(1.0, value))))


def score_text(value: float, proof: int, *, in_plies: bool = False) -> str:
    """`cp N`, or `mate N` if `proof` (plies to the win or minus plies to the loss) is known.

    N counts moves, or plies with `in_plies`.
    """
    if proof and in_plies:
        return f"mate {proof}"
    if proof:
        return f"mate {(proof + 1) // 2 if proof > 0 else -(-proof // 2)}"
    return f"cp {centipawns(value)}"


def wdl_per_mille(value: float, draw: float, proof: int = 0) -> tuple[int, int, int]:
    """Per mille of win, draw and loss, for a searched `value`.

    A tree stores one value per move, not win/draw/loss. So the draw share is the network's at the root, or
    less where the value does not allow that much.
    """
    if proof:
        return (1000, 0, 0) if proof > 0 else (0, 0, 1000)
    drawn = max(0.0, min(draw, 1.0 - abs(value)))
    win = round(1000 * (1.0 - drawn + value) / 2)
    loss = round(1000 * (1.0 - drawn - value) / 2)
    return win, 1000 - win - loss, loss


def wdl_text(value: float, draw: float, proof: int = 0) -> str:
    """`wdl_per_mille` as UCI writes it."""
    return " ".join(map(str, wdl_per_mille(value, draw, proof)))


def info_lines(report: Report, dialect: Dialect) -> Iterable[str]:
    """The `info` lines of a report: one for each move."""
    if report.note:
        yield f"info string {report.note}"
    if report.outcome is not None:
        yield f"info depth 0 score {'cp 0' if report.outcome == 0 else 'mate 0'}"
    progress = report.progress
    speed = round(progress.simulations / progress.seconds) if progress.seconds > 0 else 0
    for number, line in enumerate(report.lines, 1):
        yield (
            f"info depth {max(1, progress.depth)} seldepth {max(1, progress.deepest)} multipv {number} "
            f"score {_score(line, report, dialect)} nodes {progress.simulations} nps {speed} "
            f"hashfull {progress.hashfull} tbhits 0 "
            f"time {round(1000 * progress.seconds)} pv {' '.join(line.moves)}"
        )


def _score(line: Line, report: Report, dialect: Dialect) -> str:
    score = score_text(line.value, line.proof, in_plies=dialect.mate_in_plies)
    return score if report.draw is None else f"{score} wdl {wdl_text(line.value, report.draw, line.proof)}"


def best_move_line(found: Found, dialect: Dialect, *, gives_up: bool) -> str:
    """The `bestmove` line; `gives_up`: resign, if the protocol has a word for it."""
    if not found.moves:
        return f"bestmove {dialect.claims.get(found.claim, dialect.no_move)}"
    if gives_up and dialect.resignation:
        return f"bestmove {dialect.resignation}"
    return f"bestmove {found.moves[0]}" + (f" ponder {found.moves[1]}" if len(found.moves) > 1 else "")
