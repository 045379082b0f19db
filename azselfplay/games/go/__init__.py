"""Go on any square board from 2 x 2 to 19 x 19, under Tromp-Taylor rules.

The usual game is 19 x 19 with a komi of 7.5. Variants are called `go_9x9`, `go_5x5_komi24.5` and so on
(`games.go.rules`). Actions are points, row by row from the bottom left, followed by the pass.
"""

from __future__ import annotations

from functools import cache, partial

from azselfplay.games import small
from azselfplay.games.go.board import Board
from azselfplay.games.go.notation import Text
from azselfplay.games.go.rules import (
    PLANES_PER_POSITION,
    SCALAR_PLANES,
    GoRules,
    kernels_of,
    owners_of,
    rules_of_options,
)
from azselfplay.games.spec import EndReason, Game, Rules, State

__all__ = ["GAME", "GoRules", "game_of", "game_of_options"]

HISTORY = 8
END_REASONS = (
    EndReason("ongoing", 0),
    EndReason("more_points", 1),
    EndReason("fewer_points", -1),
    EndReason("as_many_points", 0),
)
RULES = ("start", "side_to_move", "legal_actions", "play", "end_reason", "encode", "maybe_wins")
MEAN_LEGAL_SHARE = 0.7
"""Share of legal actions in a typical position: about 250 of 362."""
ALPHA, ALPHA_ACTIONS = 0.03, 362
"""AlphaZero's Dirichlet alpha at the root, on 19 x 19."""


@cache
def game_of(rules: GoRules) -> Game:
    """Return the game under these rules."""
    board, kernels = Board(rules.size), kernels_of(rules)
    text = Text(board, kernels)
    actions = board.points + 1

    def score(state: State) -> float:
        # The kernel counts half points, because a komi may contain one.
        return int(kernels.lead(state)) / 2

    return Game(
        name=rules.name,
        rows=rules.size,
        cols=rules.size,
        actions=actions,
        policy_planes=1,
        extra_actions=1,
        legal_as_mask=True,
        state_words=board.state_words,
        max_legal=actions,
        mean_legal=MEAN_LEGAL_SHARE * actions,
        # On smaller boards the same total of alpha is spread over fewer actions.
        dirichlet_alpha=ALPHA * ALPHA_ACTIONS / actions,
        max_plies=rules.last_ply,
        planes_per_position=PLANES_PER_POSITION,
        scalar_planes=SCALAR_PLANES,
        history=HISTORY,
        end_reasons=END_REASONS,
        rules=Rules(*(getattr(kernels, name) for name in RULES)),
        notation=text.notation(),
        symmetries=small.square_symmetries(rules.size, extra_actions=1),
        score=score,
        owners=partial(owners_of, rules),
        knowledge="azselfplay.games.go.knowledge",
    )


def game_of_options(options: tuple[str, ...]) -> Game:
    """Return the game with these options, which follow `go_` in its name. Raises ValueError for invalid
    options."""
    return game_of(rules_of_options(options))


GAME = game_of(GoRules())
