"""What is known of shogi: material, openings, game files."""

from __future__ import annotations

from games.knowledge import Heuristic, Knowledge
from games.shogi import heuristic, records
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
    pgn=records.csa,
    between_games=records.BETWEEN_GAMES,
)
