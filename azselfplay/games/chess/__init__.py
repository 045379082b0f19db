"""Standard chess: nine words per position, AlphaZero's 119 input planes and 4672 moves. Also draws random
endgames as start positions.

Random endgames have a given material, for self-play that does not begin at move one. As with endgame tables,
a name lists the men of one side and then of the other, each king first: KQK, KRPKR. The colour of the first
side and the side to move are random, with equal probability. The position is legal and the game is not over.
Nobody is in check, because often no move could have given a random check. Counters start as in any game:
half-move clock 0, move 1.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from azselfplay.games.boards import ranks_to_text
from azselfplay.games.chess.board import ACTIONS, PLANES, STATE_WORDS, side_to_move, start
from azselfplay.games.chess.encoding import (
    PLANES_PER_POSITION,
    PROBES,
    SCALAR_PLANES,
    SPARSE,
    encode,
)
from azselfplay.games.chess.notation import NOTATION, legal_list, state_from_fen, state_to_fen
from azselfplay.games.chess.rules import (
    END_REASONS,
    MAX_LEGAL,
    end_reason,
    in_check,
    legal_actions,
    maybe_wins,
    play,
)
from azselfplay.games.spec import NO_ROOT, Game, Rules, StartGenerator

# ---- Random endgames -----------------------------------------------------------------------------


TRIES = 1000
"""Random placements to test a name: it is accepted if at least one of them is valid. For KQK every third
is."""
MOST_TRIES = 100 * TRIES
"""Placements to try for a game: more, so that an accepted name does not fail by bad luck."""
MOST_MEN = 32


def sides_of(name: str) -> tuple[str, str]:
    """Split a name: "KRPKR" -> ("KRP", "KR"). Raises ValueError if it is not a name."""
    sides = re.fullmatch(r"(K[QRBNP]*)(K[QRBNP]*)", name)
    if sides is None or len(name) > MOST_MEN:
        raise ValueError(
            f"{name!r} names no material: write the men of one side and then of the other, each king first, "
            "as KQK or KRPKR"
        )
    return sides[1], sides[2]


def draw(name: str, rng: np.random.Generator, tries: int = MOST_TRIES) -> str:
    """Return a random position with the material `name`, as FEN. Raises ValueError if none is found."""
    first, second = sides_of(name)
    # A network should not learn that the stronger side is always White.
    white, black = (first, second) if rng.random() < 0.5 else (second, first)
    men = white + black.lower()
    side = "wb"[int(rng.integers(2))]
    fault = "no legal position was found"
    for _ in range(tries):
        try:
            squares = [""] * 64
            # Pawns first, because they have fewer squares: not the first and last ranks.
            for man in sorted(men, key=lambda man: man.upper() != "P"):
                low, high = (8, 56) if man.upper() == "P" else (0, 64)
                free = [square for square in range(low, high) if not squares[square]]
                if not free:
                    raise ValueError("there are more pawns than squares")
                squares[free[int(rng.integers(len(free)))]] = man
            board = ranks_to_text(squares[8 * rank : 8 * rank + 8] for rank in range(7, -1, -1))
            state = state_from_fen(f"{board} {side} - - 0 1")
        except ValueError as error:
            # If nothing is found, the last error is reported: for an impossible name all errors are the same.
            fault = str(error)
            continue
        over = end_reason(state.reshape(1, -1), 1, len(legal_list(state)), NO_ROOT)
        if not over and not in_check(state):
            return state_to_fen(state)
        fault = "the game would be over there, or a king in check"
    raise ValueError(f"{name}: none of {tries} random positions can begin a game: {fault}")


def matches(name: str, text: str) -> bool:
    """Return whether `draw(name)` may have returned this text. Does not check that the game is not over."""
    try:
        state = state_from_fen(text)
    except ValueError:
        return False
    fields = text.split(" ")
    # `draw` writes each position in exactly this way.
    if state_to_fen(state) != text or fields[2:] != ["-", "-", "0", "1"] or in_check(state):
        return False
    colours = [Counter(x.upper() for x in fields[0] if case(x)) for case in (str.isupper, str.islower)]
    wanted = [Counter(side) for side in sides_of(name)]
    return colours in (wanted, wanted[::-1])


def check(name: str) -> None:
    """Raise ValueError that says what is wrong with `name`, if anything. The seed is fixed, so the answer is
    always the same."""
    draw(name, np.random.default_rng(0), TRIES)


GENERATOR = StartGenerator(
    names="material such as KQK, KRK, KPK, KRPKR", check=check, draw=draw, matches=matches
)


# ---- The game ------------------------------------------------------------------------------------


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
    rules=Rules(start, side_to_move, legal_actions, play, end_reason, encode, maybe_wins),
    notation=NOTATION,
    knowledge="azselfplay.games.chess.knowledge",
    played_out_plies=40.0,
    generator=GENERATOR,
    probes=PROBES,
    sparse=SPARSE,
)
