"""Moves that win at once, in jitted code, by the rules alone."""

from __future__ import annotations

from typing import Any

from games.jit import kernel, signed
from games.spec import NO_ROOT
from games.stubs import END_VALUES, end_reason, legal_actions, maybe_won, play, side_to_move


@kernel
def wins_at_once(history: Any, positions: int, action: int, legal: Any) -> bool:
    """Return whether `action` in the last of `positions` positions ends the game in a win for the side that
    plays it. `history` uint64[> positions, state_words]: its next row is scratch, and `legal`
    uint16[max_legal] too."""
    play(history[positions - 1], action, history[positions])
    if not maybe_won(history, positions + 1):
        return False
    count = legal_actions(history, positions + 1, legal)
    reason = end_reason(history, positions + 1, count, NO_ROOT)
    if reason == 0:
        return False
    same = side_to_move(history[positions]) == side_to_move(history[positions - 1])
    return bool(END_VALUES[reason] == (1 if same else -1))


@kernel
def wins_among(history: Any, positions: int, actions: Any, found: Any, legal: Any) -> int:
    """Write those of the legal `actions` (uint16[n]) that win at once to `found` (uint16[max_legal]). Returns
    their number. `history` and `legal` as in `wins_at_once`."""
    count = 0
    for action in actions:
        if wins_at_once(history, positions, signed(action), legal):
            found[count] = action
            count += 1
    return count
