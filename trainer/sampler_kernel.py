"""Jitted making of training samples: play a game again up to a position, encode it, write its targets.

The rules are bound per game by `games.jit.specialise`; the names below stand for them until then.
`tests/trainer/naive_sampler.py` is the slow twin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from games.jit import signed, unbound
from games.spec import Line
from trainer.window import Rings

WORD_BITS = 64


class SymmetryMaps(NamedTuple):
    """Where each symmetry takes what there is; row 0 is the identity."""

    cells: npt.NDArray[np.int64]
    """[symmetries, cells]"""
    planes: npt.NDArray[np.int64]
    """[symmetries, bit planes]"""
    actions: npt.NDArray[np.int64]
    """[symmetries, actions]"""


play: Callable[..., Any] = unbound
side_to_move: Callable[..., Any] = unbound
legal_actions: Callable[..., Any] = unbound
encode: Callable[..., Any] = unbound


def replay_to(rings: Rings, first: int, ply: int, line: Line) -> None:
    """Fill `line[1 .. ply]` from `line[0]` with the actions numbered `first .. first + ply - 1`."""
    capacity = len(rings.action)
    index = first % capacity
    for i in range(ply):
        play(line[i], signed(rings.action[index]), line[i + 1])
        index += 1
        if index == capacity:
            index = 0


def permute_planes(
    source: npt.NDArray[np.uint64],
    cells: npt.NDArray[np.int64],
    planes: npt.NDArray[np.int64],
    target: npt.NDArray[np.uint64],
) -> None:
    """Move every bit of plane `p` from cell `i` to cell `cells[i]` of plane `planes[p]`; scalar planes stay.

    source, target  uint64[feature words];  cells  [cells of the board];  planes  [bit planes]
    """
    one = np.uint64(1)
    words_per_plane = (len(cells) + WORD_BITS - 1) // WORD_BITS
    bit_words = len(planes) * words_per_plane
    for word in range(len(source)):
        target[word] = np.uint64(0) if word < bit_words else source[word]
    for plane in range(len(planes)):
        old, new = plane * words_per_plane, planes[plane] * words_per_plane
        for cell in range(len(cells)):
            bit = source[old + cell // WORD_BITS] >> np.uint64(cell % WORD_BITS)
            moved = cells[cell]
            target[new + moved // WORD_BITS] |= (bit & one) << np.uint64(moved % WORD_BITS)


def write_policy(
    rings: Rings,
    visit: int,
    count: int,
    legal: npt.NDArray[np.uint16],
    actions_map: npt.NDArray[np.int64],
    share_of: npt.NDArray[np.float32],
    actions: npt.NDArray[np.int64],
    shares: npt.NDArray[np.float32],
) -> None:
    """Every legal action with its share of the visits numbered `visit .. visit + count - 1`.

    `share_of` is scratch of one entry per action of the game, all 0 before and after.
    """
    capacity = len(rings.visit_action)
    total = signed(0)
    for i in range(count):
        total += signed(rings.visit_count[(visit + i) % capacity])
    for i in range(count):
        at = (visit + i) % capacity
        share_of[rings.visit_action[at]] = np.float32(rings.visit_count[at]) / np.float32(total)
    for i in range(len(legal)):
        action = signed(legal[i])
        actions[i] = actions_map[action]
        shares[i] = share_of[action]
        share_of[action] = np.float32(0)


def write_samples(
    rings: Rings,
    starts: Line,
    numbers: npt.NDArray[np.int64],
    symmetries: npt.NDArray[np.int64],
    maps: SymmetryMaps,
    history: int,
    line: Line,
    packed: npt.NDArray[np.uint64],
    legal: npt.NDArray[np.uint16],
    share_of: npt.NDArray[np.float32],
    words: npt.NDArray[np.uint64],
    classes: npt.NDArray[np.int64],
    root_values: npt.NDArray[np.float32],
    capped: npt.NDArray[np.uint8],
    plies_left: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    shares: npt.NDArray[np.float32],
) -> int:
    """Samples for the positions `numbers`, each seen through symmetry `symmetries[row]` (0: as it is).

    line     uint64[longest game + 1, state_words] scratch;  packed  uint64[feature words] scratch
    legal    [max_legal] scratch;  share_of  float32[actions of the game] scratch, all 0
    words    uint64[n, feature words] features
    classes  int64[n] 0 win, 1 draw, 2 loss, for the side to move
    root_values  float32[n] as recorded, for the side to move; NaN for a ply without a search
    capped   uint8[n] 1: ended by its length
    plies_left  int32[n] moves from here to the end of the game, at least 1
    rows, actions, shares  [n * max_legal] the policy target: share of the visits (0: none) of the legal
             action `actions[i]` in sample `rows[i]`; a sample that is no policy target has no entries.
             Returns how many.
    """
    at = 0
    for row in range(len(numbers)):
        index = numbers[row] % len(rings.action)
        slot = signed(rings.game[index])
        ply = numbers[row] - rings.game_first[slot]
        start = rings.game_start[slot]
        # Word by word: an assignment of arrays may fail, and compiling its message takes 2 seconds.
        for word in range(starts.shape[1]):
            line[0, word] = starts[start, word]
        replay_to(rings, rings.game_first[slot], ply, line)
        symmetry = symmetries[row]
        if symmetry == 0:
            encode(line, ply + 1, history, words[row])
        else:
            encode(line, ply + 1, history, packed)
            permute_planes(packed, maps.cells[symmetry], maps.planes[symmetry], words[row])
        outcome = signed(rings.game_outcome[slot])
        value = outcome if side_to_move(line[ply]) == 0 else -outcome
        classes[row] = 1 - value
        root_values[row] = rings.root_value[index] if rings.visited[index] > 0 else np.float32(np.nan)
        capped[row] = rings.game_capped[slot]
        plies_left[row] = rings.game_plies[slot] - ply
        if rings.is_target[index]:
            count = signed(legal_actions(line, ply + 1, legal))
            visit = rings.game_visit[slot] + signed(rings.visit_offset[index])
            for i in range(at, at + count):
                rows[i] = row
            write_policy(
                rings,
                visit,
                signed(rings.visited[index]),
                legal[:count],
                maps.actions[symmetry],
                share_of,
                actions[at:],
                shares[at:],
            )
            at += count
    return at


KERNELS: dict[str, Callable[..., Any]] = {
    "replay_to": replay_to,
    "permute_planes": permute_planes,
    "write_policy": write_policy,
    "write_samples": write_samples,
}
