"""What is known about chess: material, openings, ratings of fixed players, endgame tables; pictures and
PGN."""

from __future__ import annotations

from games.chess import heuristic, pictures
from games.chess.ends import CHECKMATE, END_REASONS
from games.chess.openings import BOOK, MOST_PLAYED
from games.chess.truth import SOLUTION
from games.knowledge import Heuristic, Knowledge, Matches, Odds


def _without_operations(epd: str) -> str:
    """An EPD's four fields (and a FEN's counters) without operations such as `bm Nf3;`."""
    words = epd.split()
    counters = words[4:6] if all(word.isdecimal() for word in words[4:6]) else []
    return " ".join(words[:4] + counters)


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
    read_start=_without_operations,
    svg=pictures.svg,
    clicks=pictures.CLICKS,
    pgn=pictures.pgn,
    solution=SOLUTION,
    matches=Matches(
        opponents=("random", "greedy", "alphabeta:1", "alphabeta:2"),
        opening_plies=4,
        max_plies=300,  # 150 moves of each side: a mate that takes longer is not reliable
        mate=END_REASONS[CHECKMATE].name,
        odds=Odds("an extra queen", QUEEN_UP, lead=800),
    ),
)
