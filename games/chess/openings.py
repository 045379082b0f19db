"""Chess openings, in UCI notation: those that matches begin with, and those counted in self-play."""

from __future__ import annotations

BOOK = {
    "Ruy Lopez": "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6",
    "Italian Game": "e2e4 e7e5 g1f3 b8c6 f1c4 f8c5 c2c3 g8f6",
    "Scotch Game": "e2e4 e7e5 g1f3 b8c6 d2d4 e5d4 f3d4 g8f6",
    "Four Knights": "e2e4 e7e5 g1f3 b8c6 b1c3 g8f6",
    "Petrov Defence": "e2e4 e7e5 g1f3 g8f6 f3e5 d7d6 e5f3 f6e4",
    "Vienna Game": "e2e4 e7e5 b1c3 g8f6 f2f4 d7d5",
    "Sicilian Najdorf": "e2e4 c7c5 g1f3 d7d6 d2d4 c5d4 f3d4 g8f6 b1c3 a7a6",
    "Sicilian Dragon": "e2e4 c7c5 g1f3 d7d6 d2d4 c5d4 f3d4 g8f6 b1c3 g7g6",
    "Sicilian Sveshnikov": "e2e4 c7c5 g1f3 b8c6 d2d4 c5d4 f3d4 g8f6 b1c3 e7e5",
    "Sicilian Taimanov": "e2e4 c7c5 g1f3 e7e6 d2d4 c5d4 f3d4 b8c6",
    "Closed Sicilian": "e2e4 c7c5 b1c3 b8c6 g2g3 g7g6",
    "French Advance": "e2e4 e7e6 d2d4 d7d5 e4e5 c7c5",
    "French Winawer": "e2e4 e7e6 d2d4 d7d5 b1c3 f8b4",
    "Caro-Kann Classical": "e2e4 c7c6 d2d4 d7d5 b1c3 d5e4 c3e4 c8f5",
    "Caro-Kann Advance": "e2e4 c7c6 d2d4 d7d5 e4e5 c8f5",
    "Pirc Defence": "e2e4 d7d6 d2d4 g8f6 b1c3 g7g6",
    "Alekhine Defence": "e2e4 g8f6 e4e5 f6d5 d2d4 d7d6",
    "Scandinavian": "e2e4 d7d5 e4d5 d8d5 b1c3 d5a5",
    "Queen's Gambit Declined": "d2d4 d7d5 c2c4 e7e6 b1c3 g8f6",
    "Queen's Gambit Accepted": "d2d4 d7d5 c2c4 d5c4 g1f3 g8f6",
    "Slav Defence": "d2d4 d7d5 c2c4 c7c6 g1f3 g8f6 b1c3 d5c4",
    "Semi-Slav": "d2d4 d7d5 c2c4 c7c6 g1f3 g8f6 b1c3 e7e6",
    "Tarrasch Defence": "d2d4 d7d5 c2c4 e7e6 b1c3 c7c5",
    "London System": "d2d4 d7d5 g1f3 g8f6 c1f4 c7c5",
    "Nimzo-Indian": "d2d4 g8f6 c2c4 e7e6 b1c3 f8b4",
    "Queen's Indian": "d2d4 g8f6 c2c4 e7e6 g1f3 b7b6",
    "Bogo-Indian": "d2d4 g8f6 c2c4 e7e6 g1f3 f8b4",
    "King's Indian": "d2d4 g8f6 c2c4 g7g6 b1c3 f8g7 e2e4 d7d6",
    "Gruenfeld": "d2d4 g8f6 c2c4 g7g6 b1c3 d7d5",
    "Modern Benoni": "d2d4 g8f6 c2c4 c7c5 d4d5 e7e6",
    "Benko Gambit": "d2d4 g8f6 c2c4 c7c5 d4d5 b7b5",
    "Dutch Defence": "d2d4 f7f5 g2g3 g8f6 f1g2 e7e6",
    "Catalan": "d2d4 g8f6 c2c4 e7e6 g2g3 d7d5",
    "English Symmetrical": "c2c4 c7c5 g1f3 g8f6",
    "English Reversed Sicilian": "c2c4 e7e5 b1c3 g8f6",
    "Reti Opening": "g1f3 d7d5 c2c4 e7e6",
    "King's Indian Attack": "g1f3 d7d5 g2g3 g8f6 f1g2 c7c6",
    "Larsen's Opening": "b2b3 e7e5 c1b2 b8c6",
    "Bird's Opening": "f2f4 d7d5 g1f3 g8f6",
    "Trompowsky": "d2d4 g8f6 c1g5 f6e4",
}
"""Well-known openings, a few moves each: balanced, and as different as possible."""

MOST_PLAYED = {
    "A10 English Opening": "c2c4",
    "D06 Queen's Gambit": "d2d4 d7d5 c2c4",
    "A46 Queen's Pawn Game": "d2d4 g8f6 g1f3",
    "E00 Queen's Pawn Game": "d2d4 g8f6 c2c4 e7e6",
    "E61 King's Indian Defence": "d2d4 g8f6 c2c4 g7g6",
    "C00 French Defence": "e2e4 e7e6",
    "B50 Sicilian Defence": "e2e4 c7c5 g1f3 d7d6",
    "B30 Sicilian Defence": "e2e4 c7c5 g1f3 b8c6",
    "B40 Sicilian Defence": "e2e4 c7c5 g1f3 e7e6",
    "C60 Ruy Lopez": "e2e4 e7e5 g1f3 b8c6 f1b5",
    "B10 Caro-Kann Defence": "e2e4 c7c6",
    "A05 Reti Opening": "g1f3 g8f6",
}
"""The twelve openings that humans play most, by AlphaZero's Table 2 (arXiv 1712.01815), each as the moves of
its ECO code. None begins with another."""
