"""Shogi engines speak USI, a sibling of UCI: `engine.uci.dialect` lists the differences."""
