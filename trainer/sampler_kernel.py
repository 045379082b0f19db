"""Jitted code that makes training samples: replay a game up to a position, encode it, write its targets.

Compiled once for each game. `tests/trainer/naive_sampler.py` is the slow twin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.jit import kernel, signed
from games.packed import move_features
from games.spec import Positions
from games.stubs import encode, legal_actions, play, side_to_move
from trainer.samples import Samples
from trainer.window import Rings


class SymmetryMaps(NamedTuple):
    """Permutations of each symmetry; row 0 is the identity."""

    cells: npt.NDArray[np.int64]
    """[symmetries, cells]"""
    planes: npt.NDArray[np.int64]
    """[symmetries, bit planes of a position]"""
    actions: npt.NDArray[np.int64]
    """[symmetries, actions]"""
    code_bits: int
    """`Game.code_bits`"""


class Scratch(NamedTuple):
    """Scratch space of `write_samples`."""

    positions: Positions
    """[longest game + 3, state_words]: one move and the reply to it may be added"""
    packed: npt.NDArray[np.uint64]
    """[feature_words]"""
    legal: npt.NDArray[np.uint16]
    """[max_legal]"""
    share_of: npt.NDArray[np.float32]
    """[actions of the game] all 0"""
    replies: npt.NDArray[np.uint16]
    """[3, max_legal]"""


@kernel
def replay_to(rings: Rings, first: int, ply: int, positions: Positions) -> None:
    """Fill `positions[1 .. ply]` from `positions[0]` with the actions numbered `first .. first + ply - 1`."""
    capacity = len(rings.action)
    index = first % capacity
    for i in range(ply):
        play(positions[i], signed(rings.action[index]), positions[i + 1])
        index += 1
        if index == capacity:
            index = 0


@kernel
def replay_game(rings: Rings, starts: Positions, number: int, positions: Positions) -> int:
    """Fill `positions` with those of a game up to the position `number` of the window. Returns its ply."""
    slot = signed(rings.game[number % len(rings.action)])
    ply = number - rings.game_first[slot]
    start = rings.game_start[slot]
    # Word by word: an assignment of arrays may fail, and compiling its error message takes 2 seconds.
    for word in range(starts.shape[1]):
        positions[0, word] = starts[start, word]
    replay_to(rings, rings.game_first[slot], ply, positions)
    return signed(ply)


@kernel
def write_features(
    scratch: Scratch,
    maps: SymmetryMaps,
    history: int,
    n: int,
    symmetry: int,
    features: npt.NDArray[np.uint64],
) -> None:
    """Write the features of the last of the `n` positions in `scratch`, through a symmetry, to `features
    [feature_words]`."""
    if symmetry == 0:
        encode(scratch.positions, n, history, features)
        return
    encode(scratch.positions, n, history, scratch.packed)
    cells, planes = maps.cells[symmetry], maps.planes[symmetry]
    move_features(scratch.packed, cells, planes, maps.code_bits, history, features)


@kernel
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
    """Write each action of `legal [n]` to `actions [n]`, mapped by `actions_map [actions of the game]`, and
    its share of the visits numbered `visit .. visit + count - 1` to `shares [n]`.

    `share_of [actions of the game]` is scratch, all 0 before and after: shares are looked up by action, so
    that the visits need not be searched for each.
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


@kernel
def write_samples(
    rings: Rings,
    starts: Positions,
    numbers: npt.NDArray[np.int64],
    symmetries: npt.NDArray[np.int64],
    maps: SymmetryMaps,
    history: int,
    scratch: Scratch,
    samples: Samples,
) -> int:
    """Write samples for the positions `numbers`, each seen through symmetry `symmetries[row]` (0: as it is).

    samples: n rows to fill, and room for n * max_legal entries of policy targets. Returns the number of
    entries.
    """
    positions, legal = scratch.positions, scratch.legal
    at = 0
    for row in range(len(numbers)):
        index = numbers[row] % len(rings.action)
        slot = signed(rings.game[index])
        ply = replay_game(rings, starts, numbers[row], positions)
        symmetry = symmetries[row]
        write_features(scratch, maps, history, ply + 1, symmetry, samples.packed_features[row])
        outcome = signed(rings.game_outcome[slot])
        value = outcome if side_to_move(positions[ply]) == 0 else -outcome
        samples.classes[row] = 1 - value
        known = rings.visited[index] > 0
        samples.root_values[row] = rings.root_value[index] if known else np.float32(np.nan)
        samples.capped[row] = rings.game_capped[slot]
        samples.plies_left[row] = rings.game_plies[slot] - ply
        if rings.is_target[index]:
            count = signed(legal_actions(positions, ply + 1, legal))
            visit = rings.game_visit[slot] + signed(rings.visit_offset[index])
            for i in range(at, at + count):
                samples.rows[i] = row
            write_policy(
                rings,
                visit,
                signed(rings.visited[index]),
                legal[:count],
                maps.actions[symmetry],
                scratch.share_of,
                samples.actions[at:],
                samples.shares[at:],
            )
            at += count
    return at
