"""What is known about Connect Four: windows of four, ratings of fixed players, and a solver."""

from __future__ import annotations

from games.connect_four import GAME, pictures
from games.connect_four.truth import SOLUTION
from games.knowledge import Knowledge, Matches
from games.windows import window_heuristic

KNOWLEDGE = Knowledge(
    heuristic=window_heuristic(GAME, 4),
    anchors={
        "random": 0,
        "rollouts:2": 62,
        "rollouts:5": 109,
        "rollouts:10": 252,
        "greedy": 569,
        "alphabeta:1": 673,
        "rollouts:100": 785,
        "alphabeta:2": 1002,
        "rollouts:1000": 1046,
        "alphabeta:4": 1056,
        "alphabeta:6": 1114,
    },
    svg=pictures.svg,
    clicks=pictures.CLICKS,
    solution=SOLUTION,
    matches=Matches(opponents=("alphabeta:5", "rollouts:1000"), opening_plies=2),
)
