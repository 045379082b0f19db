"""Shogi engines speak USI, a sibling of UCI: `engine.uci.dialect` says what is different."""
