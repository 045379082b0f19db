"""Standard chess: nine words a position, AlphaZero's 119 input planes and 4672 moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.chess.actions import ACTIONS, PLANES
from games.chess.encoding import PLANES_PER_POSITION, SCALAR_PLANES, encode
from games.chess.ends import END_REASONS, end_reason, maybe_won
from games.chess.generator import GENERATOR
from games.chess.layout import STATE_WORDS, side_to_move, start
from games.chess.material import PROBES, material
from games.chess.movegen import MAX_LEGAL, legal_actions
from games.chess.notation import NOTATION
from games.chess.play import play
from games.chess.sparse import SPARSE
from games.spec import Game, Rules

if TYPE_CHECKING:
    from games.knowledge import Knowledge


def _knowledge() -> Knowledge:
    from games.chess.knowledge import KNOWLEDGE

    return KNOWLEDGE


GAME = Game(
    name="chess",
    rows=8,
    cols=8,
    actions=ACTIONS,
    policy_planes=PLANES,
    state_words=STATE_WORDS,
    max_legal=MAX_LEGAL,
    mean_legal=35.0,
    dirichlet_alpha=0.3,
    max_plies=512,
    planes_per_position=PLANES_PER_POSITION,
    scalar_planes=SCALAR_PLANES,
    history=8,
    end_reasons=END_REASONS,
    rules=Rules(start, side_to_move, legal_actions, play, end_reason, encode, maybe_won),
    notation=NOTATION,
    knowledge=_knowledge,
    played_out_plies=40.0,
    generator=GENERATOR,
    probes=PROBES,
    material=material,
    sparse=SPARSE,
)
