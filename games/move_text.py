"""Moves as text, for games whose notation can be turned into an action before it is known to be legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def legal_action(
    text: str, action: int, legal: Sequence[int], to_text: Callable[[int], str], said: Callable[[], str]
) -> int:
    """Return `action`, the meaning of `text`, if it is legal and is written that way.

    Raises ValueError listing the legal moves that begin like `text`, else all. said() describes how moves are
    written, and in which position.
    """
    if action in legal and to_text(action) == text:
        return action
    moves = sorted(map(to_text, legal))
    near = [move for move in moves if move[:2] == text[:2]] or moves
    listed = ", ".join(near[:12]) or "none: the game is over"
    raise ValueError(f"{text!r} is not a legal move ({said()}); legal: {listed}")
