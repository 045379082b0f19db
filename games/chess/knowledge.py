"""What is known about chess: material, openings, ratings of fixed players, endgame tables; pictures and
PGN."""

from __future__ import annotations

import re

from games.chess import heuristic, pictures
from games.chess.ends import CHECKMATE, END_REASONS
from games.chess.openings import BOOK, MOST_PLAYED
from games.chess.truth import SOLUTION
from games.knowledge import Heuristic, Knowledge, Matches, Odds

OPERATION = re.compile(r"""\s*([A-Za-z][A-Za-z0-9_]*)((?:\s+(?:"[^"]*"|[^\s;"]+))*)\s*(?:;|$)""")
"""A name and its operands. The last semicolon may be missing."""


def fen_of_epd(text: str) -> str:
    """The FEN of an EPD, or of a FEN with operations after it: `hmvc` and `fmvn` are its counters,
    and others, such as `bm Nf3;`, are left out.

    Raises ValueError for what is no operation. Whether the FEN is right is for its reader to say.
    """
    fields, rest = text.split()[:4], " ".join(text.split()[4:])
    counters: list[str] = []
    while len(counters) < 2 and (number := re.match(r"([0-9]+)(?:\s+|$)", rest)):
        counters.append(number[1])
        rest = rest[number.end() :]
    if len(counters) == 1 and rest and ";" not in rest:
        return text  # a FEN whose last field is wrong
    given: dict[str, str] = {}
    while rest:
        found = OPERATION.match(rest)
        if found is None:
            raise ValueError(f"{rest[:60]!r} after the position is no operation of an EPD, such as hmvc 12;")
        name, operand = found[1], found[2].strip()
        if name in ("hmvc", "fmvn") and (name in given or len(operand.split()) != 1):
            raise ValueError(f"{name} of an EPD is one number, as in {name} 12;")
        given[name], rest = operand, rest[found.end() :].strip()
    if not counters and {"hmvc", "fmvn"} & {*given}:
        counters = [given.get("hmvc", "0"), given.get("fmvn", "1")]
    return " ".join(fields + counters)


QUEEN_UP = (
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
    "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
)
"""One side without its queen."""

KNOWLEDGE = Knowledge(
    heuristic=Heuristic(
        evaluate=heuristic.evaluate,
        material=heuristic.material,
        order_score=heuristic.order_score,
        is_noisy=heuristic.is_noisy,
        sees_reply=False,
    ),
    anchors={
        "random": 0,
        "blend:greedy:30": 306,
        "blend:greedy:60": 519,
        "blend:greedy:85": 597,
        "greedy": 677,
        "blend:alphabeta:1:80": 1063,
        "blend:alphabeta:1:92": 1352,
        "alphabeta:1": 1550,
        "blend:alphabeta:2:92": 1577,
        "alphabeta:2": 1906,
        "alphabeta:3": 2324,
    },
    book=BOOK,
    counted_openings=MOST_PLAYED,
    read_start=fen_of_epd,
    svg=pictures.svg,
    clicks=pictures.CLICKS,
    pgn=pictures.pgn,
    read_pgn=pictures.read_pgn,
    solution=SOLUTION,
    matches=Matches(
        opponents=("random", "greedy", "alphabeta:1", "alphabeta:2"),
        opening_plies=8,
        max_plies=300,  # 150 moves of each side: a mate that takes longer is not reliable
        mate=END_REASONS[CHECKMATE].name,
        odds=Odds("an extra queen", QUEEN_UP, lead=800),
    ),
)
