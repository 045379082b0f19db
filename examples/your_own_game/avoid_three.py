"""Avoid three: on a board of 4 x 4, the first player to have three stones in a row loses.

A whole game in one file, in a package of its own: the pyproject.toml beside it registers `GAME`.
`azselfplay/games/spec.py` of azselfplay explains the fields. Cells and actions are 0-15, row by row from the
bottom left.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from azselfplay.games import small
from azselfplay.games.bits import ONE
from azselfplay.games.jit import jit
from azselfplay.games.spec import EndReason, Game, Positions, Rules, State

SIZE = 4
CELLS = SIZE * SIZE


TRIPLES = small.windows_of(SIZE, SIZE, 3)
"""All three cells in a row, as bits."""

THREE, FULL = 1, 2
# The value is for the side to move in the final position. The other side has made three, and lost.
END_REASONS = (EndReason("ongoing", 0), EndReason("three_in_a_row", +1), EndReason("board_full", 0))


@jit
def legal_actions(positions: Positions, n: int, actions: npt.NDArray[np.uint16]) -> int:
    """Write the empty cells, ascending, to `actions` [16]. Return their number."""
    taken = positions[n - 1, 0] | positions[n - 1, 1]
    count = 0
    for cell in range(CELLS):
        if not (taken >> np.uint64(cell)) & ONE:
            actions[count] = cell
            count += 1
    return count


@jit
def play(parent: State, action: int, child: State) -> None:
    """Write the position after a move. Word 0 has the stones of the side to move, word 1 the other side's,
    word 2 the number of stones."""
    child[0] = parent[1]
    child[1] = parent[0] | (ONE << np.uint64(action))
    child[2] = parent[2] + ONE


@jit
def has_three(stones: int) -> bool:
    for triple in TRIPLES:  # noqa: SIM110 - Numba compiles loops, not generators
        if stones & triple == triple:
            return True
    return False


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    if has_three(positions[n - 1, 1]):
        return THREE
    return FULL if legal_count == 0 else 0


RULES = Rules(small.start, small.side_to_move, legal_actions, play, end_reason, small.encode)

GAME = Game(
    name="avoid_three",
    rows=SIZE,
    cols=SIZE,
    actions=CELLS,
    policy_planes=1,
    state_words=small.STATE_WORDS,
    max_legal=CELLS,
    mean_legal=10.0,
    dirichlet_alpha=1.0,
    max_plies=CELLS,
    planes_per_position=small.PLANES_PER_POSITION,
    scalar_planes=small.SCALAR_PLANES,
    history=1,
    end_reasons=END_REASONS,
    rules=RULES,
    notation=small.notation(
        RULES,
        lambda text: small.stones_from_text(text, SIZE, SIZE, lambda _stones: False),
        rows=SIZE,
        cols=SIZE,
        noun="cell",
        actions=CELLS,
        footer="(cells 1-16, row by row from the bottom left)",
    ),
    symmetries=small.square_symmetries(SIZE),
)
