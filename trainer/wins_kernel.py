"""Jitted code that makes samples of positions one move beside stored games in which the side to move wins at
once.

Whoever can win at once does so, and the game is over: it contains at most one such position. The moves that
were not played lead to many more, and the rules alone say which moves win (docs/decisions/0058).
Most positions have none beside them, and to find that out for all their moves would take the longest; so one
move is tried of each position that is drawn.
`tests/trainer/naive_wins.py` is the slow twin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.jit import kernel, signed
from games.spec import NO_ROOT, Positions
from games.stubs import end_reason, legal_actions, play, wins_among
from trainer.sampler_kernel import Scratch, SymmetryMaps, replay_game, write_features
from trainer.samples import Samples
from trainer.window import Rings


class Draws(NamedTuple):
    """Where to look: `m` positions of the window."""

    numbers: npt.NDArray[np.int64]
    """[m]"""
    moves: npt.NDArray[np.int64]
    """[m] at least 0: which of the legal moves is tried (after the last one the first follows)."""
    symmetries: npt.NDArray[np.int64]
    """[n] symmetry of each sample (0: as it is)."""


@kernel
def find_wins(scratch: Scratch, n: int, move: int) -> tuple[int, int]:
    """Play the legal move numbered `move` in the last of the `n` positions in `scratch`. Returns how many
    replies are then legal (`scratch.replies[0]`), and how many of them win at once (`scratch.replies[1]`)."""
    positions, legal, replies = scratch.positions, scratch.legal, scratch.replies
    count = signed(legal_actions(positions, n, legal))
    play(positions[n - 1], signed(legal[move % count]), positions[n])
    answers = signed(legal_actions(positions, n + 1, replies[0]))
    if end_reason(positions, n + 1, answers, NO_ROOT) != 0:
        return answers, signed(0)
    return answers, signed(wins_among(positions, n + 1, replies[0, :answers], replies[1], replies[2]))


@kernel
def write_wins(
    rings: Rings,
    starts: Positions,
    draws: Draws,
    maps: SymmetryMaps,
    history: int,
    scratch: Scratch,
    samples: Samples,
) -> tuple[int, int]:
    """Write samples of positions one move beside those drawn, until `samples` is full or none is left.

    samples: n rows to fill, and room for n * max_legal entries of policy targets. Returns the numbers of rows
    and of entries written.
    """
    replies, share_of = scratch.replies, scratch.share_of
    row, at = 0, 0
    for drawn in range(len(draws.numbers)):
        if row == len(samples.classes):
            break
        n = replay_game(rings, starts, draws.numbers[drawn], scratch.positions) + 1
        answers, wins = find_wins(scratch, n, draws.moves[drawn])
        if wins == 0:
            continue
        symmetry = draws.symmetries[row]
        write_features(scratch, maps, history, n + 1, symmetry, samples.packed_features[row])
        samples.classes[row] = 0
        samples.root_values[row] = np.float32(1)
        samples.capped[row] = 0
        samples.plies_left[row] = 1
        for i in range(wins):
            share_of[replies[1, i]] = np.float32(1) / np.float32(wins)
        for i in range(answers):
            action = signed(replies[0, i])
            samples.rows[at + i] = row
            samples.actions[at + i] = maps.actions[symmetry, action]
            samples.shares[at + i] = share_of[action]
            share_of[action] = np.float32(0)
        at += answers
        row += 1
    return row, at
