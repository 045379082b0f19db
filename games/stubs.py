"""The rules of a game as jitted code outside `games/` imports them; `games.jit.bind` replaces them by a
game's own.

`games.spec.Rules` describes each of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.jit import jit
from games.spec import Game, Positions, State

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


def maybe_won(positions: Positions, n: int) -> bool:
    raise _unbound()


@jit
def _always(positions: Positions, n: int) -> bool:
    """Stands for `maybe_won` in games that have no such test."""
    return True


def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """See `games.spec.SparseFeatures`."""
    raise _unbound()


END_VALUES: npt.NDArray[np.int8] = np.zeros(0, np.int8)
"""[reasons] value of each end reason, for the side to move."""


def _unbound() -> RuntimeError:
    return RuntimeError("this is bound to the rules of a game by games.jit.bind")


def bindings(game: Game) -> list[tuple[Any, Any]]:
    """The bindings with which `games.jit.bind` replaces these stubs by the rules of `game`."""
    rules = game.rules
    return [
        (side_to_move, rules.side_to_move),
        (legal_actions, rules.legal_actions),
        (play, rules.play),
        (end_reason, rules.end_reason),
        (encode, rules.encode),
        (maybe_won, rules.maybe_won or _always),
        *([] if game.sparse is None else [(describe, game.sparse.describe)]),
        (END_VALUES, np.array([reason.value for reason in game.end_reasons], dtype=np.int8)),
    ]
