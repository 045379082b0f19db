"""The compiled kernels of a set of rules."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt

from games.go import area_kernel, chains_kernel, legal_kernel, rules_kernel
from games.go.board import Board
from games.go.chains_kernel import BOARD, KEYS, NEAR, NEAR_WORD, POINTS, ROOM, SPAN, WORDS
from games.go.legal_kernel import MASKS, SITUATIONAL, SIZE, SUICIDE, TWICE_POINTS
from games.go.rules import GoRules
from games.go.rules_kernel import KOMI_HALVES, LAST_PLY, STATE_WORDS
from games.jit import Bindings, bind
from games.spec import State


@cache
def kernels_of(rules: GoRules) -> SimpleNamespace:
    """All kernels by name. Those that depend only on the board, not on the rules, are compiled once for
    it."""
    return bind([chains_kernel, area_kernel, rules_kernel, legal_kernel], bindings_of(rules))


def bindings_of(rules: GoRules) -> dict[str, Bindings]:
    """The bindings with which `games.jit.bind` compiles kernels for a board and for rules."""
    return {f"go_board_{rules.size}": _board_bindings(Board(rules.size)), rules.name: _rules_bindings(rules)}


def owners_of(rules: GoRules, state: State) -> npt.NDArray[np.int8]:
    """[points] the owner of each point's area on the present board, all stones being alive: 0 the first
    player (Black), 1 the second, -1 nobody."""
    owners = np.zeros(rules.size * rules.size, np.int8)
    kernels_of(rules).find_owners(state, owners)
    return owners


def _board_bindings(board: Board) -> Bindings:
    return [
        (WORDS, board.words),
        (POINTS, board.points),
        (SPAN, board.words + 1),
        (ROOM, board.room),
        (SIZE, board.size),
        (TWICE_POINTS, 2 * board.points),
        (STATE_WORDS, board.state_words),
        (NEAR_WORD, board.near_word),
        (NEAR, board.near),
        (BOARD, board.words_of(range(board.points))),
        (KEYS, board.keys),
        (MASKS, board.masks()),
    ]


def _rules_bindings(rules: GoRules) -> Bindings:
    return [
        (KOMI_HALVES, round(2 * rules.komi)),
        (SITUATIONAL, int(rules.superko == "situational")),
        (SUICIDE, int(rules.suicide)),
        (LAST_PLY, rules.last_ply),
    ]
