"""What is known about shogi: material, openings, game files."""

from __future__ import annotations

from games.knowledge import Heuristic, Knowledge, Matches
from games.shogi import heuristic, kif, pictures, records
from games.shogi.ends import END_REASONS, MATE
from games.shogi.openings import BOOK

KNOWLEDGE = Knowledge(
    heuristic=Heuristic(
        evaluate=heuristic.material,
        material=heuristic.material,
        order_score=heuristic.order_score,
        is_noisy=heuristic.is_noisy,
        sees_reply=False,
    ),
    book=BOOK,
    svg=pictures.svg,
    clicks=pictures.CLICKS,
    pgn=records.csa,
    more_forms={"kif": kif.kif},
    between_games=records.BETWEEN_GAMES,
    matches=Matches(
        opponents=("random", "greedy", "alphabeta:1"),
        opening_plies=4,
        max_plies=400,  # 200 moves of each side: a mate that takes longer is not reliable
        mate=END_REASONS[MATE].name,
    ),
)
