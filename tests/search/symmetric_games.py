"""Games that have symmetries, each with the actions of a few plies."""

from __future__ import annotations

from hands import NAME as HANDS
from twice import NAME as TWICE

PLAYED = [
    ("tic_tac_toe", [0, 5, 6]),
    ("connect_four", [0, 0, 2, 5, 1]),
    (TWICE, [0, 2, 1, 7, 4]),
    ("dots_and_boxes_9x8", [0, 8, 81, 80, 150, 12, 3]),  # two words a plane; sides of boxes swap
    ("go_5x5", [7, 12, 25, 3]),  # the pass stays one
    (HANDS, [203, 468, 594, 65, 130]),  # codes, hands, and a pass that stays one
]
