"""Shogi openings, as USI moves: those that matches begin with."""

from __future__ import annotations

BOOK = {
    "Yagura": "7g7f 8c8d 7i6h 3c3d 6h7g 7a6b 3i4h 5c5d",
    "Double Wing Attack": "2g2f 8c8d 2f2e 8d8e 6i7h 4a3b",
    "Bishop Exchange": "7g7f 8c8d 2g2f 8d8e 8h7g 3c3d 7i8h 2b7g+ 8h7g 3a2b",
    "Tempo Loss Bishop Exchange": "7g7f 3c3d 2g2f 2b8h+ 7i8h 3a2b",
    "Side Pawn Capture": "7g7f 3c3d 2g2f 8c8d 2f2e 8d8e 6i7h 4a3b 2e2d 2c2d 2h2d 8e8f 8g8f 8b8f 2d3d",
    "Fourth File Rook": "7g7f 3c3d 6g6f 8c8d 2h6h 7a6b",
    "Third File Rook": "7g7f 3c3d 6g6f 8c8d 2h7h 7a6b",
    "Cheerful Central Rook": "7g7f 3c3d 2g2f 5c5d 2f2e 8b5b",
    "Opposing Rook": "7g7f 3c3d 6g6f 8c8d 8h7g 8d8e 2h8h",
    "Snow Roof": "7g7f 3c3d 6g6f 8c8d 7i6h 7a6b 6h6g",
    "Climbing Silver": "2g2f 8c8d 2f2e 4a3b 3i3h 7a7b 3h2g",
    "Ishida": "7g7f 3c3d 7f7e 8c8d 2h7h",
    "Double Ranging Rook": "7g7f 3c3d 6g6f 3a3b 2h6h 8b4b",
    "Right Fourth File Rook": "2g2f 8c8d 7g7f 8d8e 8h7g 3c3d 7i6h 4c4d 4g4f 3a4b 3i4h",
}
"""Well-known openings, a few moves each: balanced, and as different as possible."""
