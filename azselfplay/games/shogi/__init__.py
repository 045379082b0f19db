"""Shogi: eleven words per position, AlphaZero's 362 input planes and 11,259 moves."""

from __future__ import annotations

from dataclasses import replace

from azselfplay.games.shogi.attacks import ACTIONS, PLANES
from azselfplay.games.shogi.board import STATE_WORDS, side_to_move, start
from azselfplay.games.shogi.encoding import (
    CODED_CELLS,
    HANDS_AND_REPETITIONS,
    PROBES,
    SIDE_AND_PLIES,
    SPARSE,
    encode,
)
from azselfplay.games.shogi.game_end import END_REASONS, end_reason, end_reason_with_declaration, maybe_wins
from azselfplay.games.shogi.notation import NOTATION
from azselfplay.games.shogi.rules import MAX_LEGAL, legal_actions, play
from azselfplay.games.spec import Game, Rules

GAME = Game(
    name="shogi",
    rows=9,
    cols=9,
    actions=ACTIONS,
    policy_planes=PLANES,
    state_words=STATE_WORDS,
    max_legal=MAX_LEGAL,
    mean_legal=80.0,
    dirichlet_alpha=0.15,
    max_plies=512,
    planes_per_position=0,
    scalar_planes=0,
    coded_cells=CODED_CELLS,
    scalars_per_position=HANDS_AND_REPETITIONS,
    scalars_once=SIDE_AND_PLIES,
    history=8,
    end_reasons=END_REASONS,
    rules=Rules(start, side_to_move, legal_actions, play, end_reason, encode, maybe_wins),
    notation=NOTATION,
    knowledge="azselfplay.games.shogi.knowledge",
    played_out_plies=60.0,
    probes=PROBES,
    sparse=SPARSE,
)

WITH_DECLARATION = replace(
    GAME, name="shogi_declaration", rules=replace(GAME.rules, end_reason=end_reason_with_declaration)
)
"""Shogi with the 27-point rule: a side declares that it has won as soon as it may."""


def game_of_options(options: tuple[str, ...]) -> Game:
    """Return the game with the options in its name; there is only one option."""
    return WITH_DECLARATION
