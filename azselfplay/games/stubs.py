"""Stubs for the rules of a game, which jitted code outside `azselfplay/games/` imports, and functions that
work with the rules of any game.

The functions at the top are stubs, which `games.jit.bind` replaces by a game's own; `games.spec.Rules`
describes each of them. Below them are functions for moves that win at once, and for the side that made each
move of a game (found by replaying, not by counting plies, because a player may move twice).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import bind, jit, kernel, signed
from azselfplay.games.spec import Game, Positions, State

Actions = npt.NDArray[np.uint16]
"""[max_legal]"""
Numbers = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
"""[feature_words]"""


def side_to_move(state: State) -> int:
    raise _unbound()


def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    raise _unbound()


def play(parent: State, action: int, child: State) -> None:
    raise _unbound()


def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    raise _unbound()


def encode(positions: Positions, n: int, history: int, packed_features: Words) -> None:
    raise _unbound()


def maybe_wins(positions: Positions, n: int, actions: Actions, found: Actions) -> int:
    raise _unbound()


@jit
def _all_of_them(positions: Positions, n: int, actions: Actions, found: Actions) -> int:
    """Write all `actions`: the `maybe_wins` of games that have no such test."""
    for i in range(len(actions)):
        found[i] = actions[i]
    return len(actions)


def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """Do what `games.spec.SparseFeatures` says."""
    raise _unbound()


END_VALUES: npt.NDArray[np.int8] = np.zeros(0, np.int8)
"""[reasons] value of each end reason, for the side to move."""


def _unbound() -> RuntimeError:
    return RuntimeError("this is bound to the rules of a game by azselfplay.games.jit.bind")


def bindings(game: Game) -> list[tuple[Any, Any]]:
    """Return the bindings with which `games.jit.bind` replaces these stubs by the rules of `game`."""
    rules = game.rules
    return [
        (side_to_move, rules.side_to_move),
        (legal_actions, rules.legal_actions),
        (play, rules.play),
        (end_reason, rules.end_reason),
        (encode, rules.encode),
        (maybe_wins, rules.maybe_wins or _all_of_them),
        *([] if game.sparse is None else [(describe, game.sparse.describe)]),
        (END_VALUES, np.array([reason.value for reason in game.end_reasons], dtype=np.int8)),
    ]


# ---- Wins ----------------------------------------------------------------------------------------


@kernel
def wins_at_once(history: Any, positions: int, action: int, legal: Any) -> bool:
    """Return whether `action`, in the last of `positions` positions, wins the game for the side that plays
    it: the game ends, or its result is certain (`Rules.end_reason`). `history`: uint64[> positions,
    state_words], whose next row is scratch; `legal` uint16[max_legal] is scratch too."""
    play(history[positions - 1], action, history[positions])
    count = legal_actions(history, positions + 1, legal)
    reason = end_reason(history, positions + 1, count, positions)
    if reason == 0:
        return False
    # End values are for the side to move in the final position. In some games that is the side that has just
    # moved.
    same = side_to_move(history[positions]) == side_to_move(history[positions - 1])
    return bool(END_VALUES[reason] == (1 if same else -1))


@kernel
def wins_among(history: Any, positions: int, actions: Any, found: Any, legal: Any) -> int:
    """Write those of the legal `actions` (uint16[n]) that win at once to `found` (uint16[max_legal], which
    may be `actions`). Returns their number. `history` and `legal` as in `wins_at_once`."""
    count = 0
    for i in range(signed(maybe_wins(history, positions, actions, found))):
        if wins_at_once(history, positions, signed(found[i]), legal):
            found[count] = found[i]
            count += 1
    return count


# ---- Who moves -----------------------------------------------------------------------------------


KNOWN_STARTS = 1000
"""Number of start positions that `Movers` caches."""

Signs = npt.NDArray[np.int8]
MoversOf = Callable[[str, npt.NDArray[np.uint16]], Signs]
"""The type of `Movers` for its users."""


@kernel
def write_movers(positions: Positions, actions: npt.NDArray[np.uint16], signs: Signs) -> None:
    """Write +1 for each of the first player's `actions`, -1 for each of the second's.

    positions: uint64[2, state_words]; row 0 is the start position, both are overwritten. actions:
    uint16[plies]. signs: int8[plies].
    """
    for ply in range(len(actions)):
        # Two rows are enough, because only the previous position is needed.
        here = ply & 1
        signs[ply] = 1 if side_to_move(positions[here]) == 0 else -1
        play(positions[here], signed(actions[ply]), positions[1 - here])


class Movers:
    """Finds out which side makes each move, for one `Game`. An instance holds scratch space: use one per
    thread."""

    def __init__(self, game: Game) -> None:
        self._write = bind([sys.modules[__name__]], {game.name: bindings(game)}).write_movers
        self._line = np.zeros((2, game.state_words), np.uint64)
        self._state_from_text = lru_cache(KNOWN_STARTS)(game.notation.state_from_text)
        self.last = self._line[0]
        """The position after the last move, valid until the next call."""

    def __call__(self, start: str, actions: npt.NDArray[np.uint16]) -> Signs:
        """Return int8[plies]: +1 where the first player moves, -1 where the second does.

        start: in the game's notation, as in a record; raises ValueError if it cannot be read. actions:
        uint16[plies] of a game under the rules (they are not checked again).
        """
        # Copied, because the kernel overwrites it.
        self._line[0] = self._state_from_text(start)
        signs = np.zeros(len(actions), np.int8)
        self._write(self._line, actions, signs)
        self.last = self._line[len(actions) & 1]
        return signs
