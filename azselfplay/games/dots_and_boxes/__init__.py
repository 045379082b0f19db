"""Dots-and-boxes on rectangular boards. Players draw edges in turn; a player who closes a box owns it and
moves again.

The usual board has 3 x 3 boxes. Other boards are separate games, such as `dots_and_boxes_2x4` (rows x
columns). The player with more boxes wins. Actions are edges (`games.dots_and_boxes.rules`).
"""

from __future__ import annotations

from functools import cache

from azselfplay.games.dots_and_boxes import rules
from azselfplay.games.dots_and_boxes.notation import Text
from azselfplay.games.dots_and_boxes.rules import PLANES_PER_POSITION, SCALAR_PLANES, Board, sparse_features
from azselfplay.games.jit import bind
from azselfplay.games.spec import EndReason, Game, Rules

NAME, ROWS, COLS = "dots_and_boxes", 3, 3
LARGEST = 12
"""Largest number of rows, and of columns."""
RULES = ("start", "side_to_move", "legal_actions", "play", "end_reason", "encode")
END_REASONS = (
    EndReason("ongoing", 0),
    EndReason("more_boxes", 1),
    EndReason("fewer_boxes", -1),
    EndReason("as_many_boxes", 0),
)


@cache
def game_of_size(rows: int, cols: int) -> Game:
    """Return the game on rows x cols boxes. Raises ValueError for an unavailable size."""
    if not (1 <= rows <= LARGEST and 1 <= cols <= LARGEST):
        near = "x".join(str(min(max(one, 1), LARGEST)) for one in (rows, cols))
        raise ValueError(
            f"{NAME}_{rows}x{cols}: rows and columns go from 1 to {LARGEST}; the nearest is {NAME}_{near}"
        )
    name = NAME if (rows, cols) == (ROWS, COLS) else f"{NAME}_{rows}x{cols}"
    board = Board(rows, cols)
    bound = rules.bindings(board)
    text = Text(board)
    kernels = bind([rules], {name: bound})
    return Game(
        name=name,
        rows=rows,
        cols=cols,
        actions=board.edges,
        policy_planes=None,
        state_words=board.edge_words + 2 * board.box_words + 1,
        max_legal=board.edges,
        # Each move uses up one edge, so half of the edges are left on average.
        mean_legal=(board.edges + 1) / 2,
        # About 10 / mean number of legal moves, as in AlphaZero's games.
        dirichlet_alpha=10 / ((board.edges + 1) / 2),
        max_plies=board.edges,
        planes_per_position=PLANES_PER_POSITION,
        scalar_planes=SCALAR_PLANES,
        history=1,
        end_reasons=END_REASONS,
        rules=Rules(*(getattr(kernels, one) for one in RULES)),
        notation=text.notation(),
        symmetries=board.symmetries(),
        score=text.score,
        knowledge="azselfplay.games.dots_and_boxes.knowledge",
        sparse=sparse_features(board, name, bound),
    )


def game_of_options(options: tuple[str, ...]) -> Game:
    """Return the game with the size in its options, such as `2x4`. Raises ValueError for an unavailable
    size."""
    rows, cols = options[0].split("x")
    return game_of_size(int(rows), int(cols))


GAME = game_of_size(ROWS, COLS)
