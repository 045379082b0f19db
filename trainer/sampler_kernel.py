"""Samples, and the jitted code that makes them: replay a game up to a position, encode it, write its targets.

The code is compiled once for each game; `tests/trainer/naive_sampler.py` and `tests/trainer/test_wins.py`
have slow reference versions. The kernels write into rows that the caller has allocated, so that they allocate
nothing.

`write_wins` makes samples of positions one move beside stored games, in which the side to move wins at once.
A player that can win at once does so and ends the game, so a game contains at most one such position. The
moves that were not played lead to many more, and the rules alone say which moves win (docs/decisions/0058).
Most positions have no such neighbour, and trying all their moves to find this out would take most of the
time; so only some moves of each drawn position are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import kernel, signed
from azselfplay.games.packed import move_features
from azselfplay.games.spec import NO_ROOT, Positions
from azselfplay.games.stubs import encode, end_reason, legal_actions, play, side_to_move, wins_among
from trainer.window import BY_PLAYER, BY_RULES, Rings


class Samples(NamedTuple):
    """`n` positions with their targets.

    The policy target has an entry for every legal action of a position; entry `i` belongs to `rows[i]`.
    """

    packed_features: npt.NDArray[np.uint64]
    """[n, feature_words] packed features."""
    classes: npt.NDArray[np.int64]
    """[n] outcome for the side to move: 0 win, 1 draw, 2 loss."""
    root_values: npt.NDArray[np.float32]
    """[n] value of the search, for the side to move, in [-1, 1]."""
    ends: npt.NDArray[np.uint8]
    """[n] what ended the game: BY_RULES, BY_CAP or BY_PLAYER."""
    end_values: npt.NDArray[np.float32]
    """[n] how sure the outcome was at the end: |value of the search| at the last position of a game that a
    player ended, else 1."""
    plies_left: npt.NDArray[np.int32]
    """[n] plies from here to the end of the game, at least 1."""
    rows: npt.NDArray[np.int64]
    """[entries] ascending; a row without entries is not a policy target."""
    actions: npt.NDArray[np.int64]
    """[entries]"""
    shares: npt.NDArray[np.float32]
    """[entries] share of the root's visits, 0 for an action without visits; they sum to 1 in each row."""
    heads: dict[str, Any] | None = None
    """Targets of the auxiliary heads, by name (`trainer.loss.HEADS`); None if not requested."""
    policy_only: npt.NDArray[np.uint8] | None = None
    """[n] 1 for a sample of which only the policy is learned; None if there is no such sample."""

    def part(self, index: int, parts: int) -> Samples:
        """Return part `index` of `parts` parts: samples `index`, `index + parts`, ..., with their entries."""
        if parts == 1:
            return self
        mine = self.rows % parts == index
        columns: dict[str, Any] = {name: getattr(self, name)[index::parts] for name in OF_ROWS}
        columns |= {name: getattr(self, name)[mine] for name in OF_ENTRIES}
        # Sample `index + k * parts` of the batch is sample k of the part.
        columns["rows"] //= parts
        if self.heads is not None:
            columns["heads"] = {name: own.part(index, parts) for name, own in self.heads.items()}
        if self.policy_only is not None:
            columns["policy_only"] = self.policy_only[index::parts]
        return Samples(**columns)


OF_ROWS, OF_ENTRIES = Samples._fields[:6], Samples._fields[6:9]
"""Names of the columns with a place for each sample, and of those with a place for each entry of a policy."""


class Counts(NamedTuple):
    """Divisors of the losses' sums over a batch, whether the batch is computed at once or in parts."""

    samples: int
    policy_rows: int
    """Samples that are a policy target."""

    @classmethod
    def of(cls, samples: Samples) -> Counts:
        """Return the counts of a whole batch."""
        # The rows of the entries are ascending.
        policy_rows = int(np.count_nonzero(np.diff(samples.rows))) + (len(samples.rows) > 0)
        return cls(len(samples.classes), policy_rows)


def room_for(count: int, words: int, most_legal: int) -> Samples:
    """Return `count` empty samples of features with `words` words, with room for `most_legal` entries each.
    This is more than is needed, but memory that is not written to costs nothing."""
    return Samples(
        packed_features=np.empty((count, words), dtype=np.uint64),
        classes=np.empty(count, dtype=np.int64),
        root_values=np.empty(count, dtype=np.float32),
        ends=np.empty(count, dtype=np.uint8),
        end_values=np.empty(count, dtype=np.float32),
        plies_left=np.empty(count, dtype=np.int32),
        rows=np.empty(count * most_legal, dtype=np.int64),
        actions=np.empty(count * most_legal, dtype=np.int64),
        shares=np.empty(count * most_legal, dtype=np.float32),
    )


def first_of(samples: Samples, count: int, entries: int) -> Samples:
    """Return the first `count` samples with their `entries`."""
    of_rows = {name: getattr(samples, name)[:count] for name in OF_ROWS}
    of_entries = {name: getattr(samples, name)[:entries] for name in OF_ENTRIES}
    return Samples(**of_rows, **of_entries)


def concatenated(parts: Sequence[Samples]) -> Samples:
    """Return the samples of all `parts`, without `heads` and `policy_only`."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in (*OF_ROWS, *OF_ENTRIES)
    }
    begins = np.cumsum([0, *(len(part.classes) for part in parts)])
    columns["rows"] += np.repeat(begins[:-1], [len(part.rows) for part in parts])
    return Samples(**columns)


def joined(samples: Samples, more: Samples, *, policy_only: bool) -> Samples:
    """Return both, `more` last. For the samples in `more` no auxiliary head learns, and with
    `policy_only` nothing but the policy."""
    count = len(samples.classes)
    learned = np.zeros(count, np.uint8) if samples.policy_only is None else samples.policy_only
    learned = np.concatenate([learned, np.full(len(more.classes), policy_only, np.uint8)])
    return concatenated([samples, more])._replace(
        heads=samples.heads, policy_only=learned if learned.any() else None
    )


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
    """[longest game + 3, state_words]: one move and the reply to it may follow"""
    packed: npt.NDArray[np.uint64]
    """[feature_words]"""
    legal: npt.NDArray[np.uint16]
    """[max_legal]"""
    share_of: npt.NDArray[np.float32]
    """[actions of the game] all 0"""
    replies: npt.NDArray[np.uint16]
    """[3, max_legal]"""


class Draws(NamedTuple):
    """Where `write_wins` looks: `m` moves in positions of the window."""

    numbers: npt.NDArray[np.int64]
    """[m] positions. Equal ones side by side cost less, because their game is replayed only once."""
    moves: npt.NDArray[np.int64]
    """[m] at least 0: which of the legal moves is tried (modulo their number)."""
    symmetries: npt.NDArray[np.int64]
    """[n] symmetry of each sample (0: unchanged)."""


@kernel
def write_samples(
    rings: Rings,
    numbers: npt.NDArray[np.int64],
    symmetries: npt.NDArray[np.int64],
    maps: SymmetryMaps,
    history: int,
    scratch: Scratch,
    samples: Samples,
) -> int:
    """Write samples for the positions `numbers`, each through the symmetry `symmetries[row]` (0: unchanged).

    samples: n rows to fill, and room for n * max_legal entries of policy targets. Returns the number of
    entries.
    """
    positions, legal = scratch.positions, scratch.legal
    at = 0
    for row in range(len(numbers)):
        index = numbers[row] % len(rings.action)
        slot = signed(rings.game[index])
        ply = replay_game(rings, numbers[row], positions)
        symmetry = symmetries[row]
        write_features(scratch, maps, history, ply + 1, symmetry, samples.packed_features[row])
        outcome = signed(rings.game_outcome[slot])
        # The outcome is for the first player, the target for the side to move.
        value = outcome if side_to_move(positions[ply]) == 0 else -outcome
        samples.classes[row] = 1 - value  # +1, 0, -1: classes 0, 1, 2
        samples.root_values[row] = rings.root_value[index]
        samples.ends[row] = rings.game_end[slot]
        samples.end_values[row] = np.float32(1)
        if rings.game_end[slot] == BY_PLAYER:
            last = (rings.game_first[slot] + rings.game_plies[slot] - 1) % len(rings.action)
            samples.end_values[row] = abs(rings.root_value[last])
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


@kernel
def write_wins(
    rings: Rings, draws: Draws, maps: SymmetryMaps, history: int, scratch: Scratch, samples: Samples
) -> tuple[int, int]:
    """Write samples of positions one move beside the drawn ones, until `samples` is full or no draw is left.

    samples: n rows to fill, and room for n * max_legal entries of policy targets. Returns the numbers of rows
    and of entries written.
    """
    replies, share_of = scratch.replies, scratch.share_of
    row, at, n, count, first = 0, 0, 0, 0, 0
    for drawn in range(len(draws.numbers)):
        # More moves are drawn than are needed, because most positions have no win beside them.
        if row == len(samples.classes):
            break
        if drawn == 0 or draws.numbers[drawn] != draws.numbers[drawn - 1]:
            n = replay_game(rings, draws.numbers[drawn], scratch.positions) + 1
            count = signed(legal_actions(scratch.positions, n, scratch.legal))
            first = drawn
        # With fewer legal moves than draws, moves come round again. A win would count several times.
        if drawn - first >= count:
            continue
        answers, wins = find_wins(scratch, n, signed(scratch.legal[draws.moves[drawn] % count]))
        if wins == 0:
            continue
        symmetry = draws.symmetries[row]
        write_features(scratch, maps, history, n + 1, symmetry, samples.packed_features[row])
        # The side to move wins with its next move, whatever the outcome of the stored game.
        samples.classes[row] = 0
        samples.root_values[row] = np.float32(1)
        samples.ends[row] = BY_RULES
        samples.end_values[row] = np.float32(1)
        samples.plies_left[row] = 1
        # All winning replies are equally good.
        for i in range(wins):
            share_of[replies[1, i]] = np.float32(1) / np.float32(wins)
        # Every legal reply gets an entry; the share of one that does not win is 0.
        for i in range(answers):
            action = signed(replies[0, i])
            samples.rows[at + i] = row
            samples.actions[at + i] = maps.actions[symmetry, action]
            samples.shares[at + i] = share_of[action]
            share_of[action] = np.float32(0)
        at += answers
        row += 1
    return row, at


@kernel
def find_wins(scratch: Scratch, n: int, action: int) -> tuple[int, int]:
    """Play the legal `action` in the last of the `n` positions in `scratch`. Returns how many replies are
    then legal (`scratch.replies[0]`), and how many of them win at once (`scratch.replies[1]`)."""
    positions, replies = scratch.positions, scratch.replies
    play(positions[n - 1], action, positions[n])
    answers = signed(legal_actions(positions, n + 1, replies[0]))
    # If the tried move ends or decides the game, no reply is better than another.
    if end_reason(positions, n + 1, answers, NO_ROOT) != 0 or end_reason(positions, n + 1, answers, n) != 0:
        return answers, signed(0)
    return answers, signed(wins_among(positions, n + 1, replies[0, :answers], replies[1], replies[2]))


@kernel
def replay_game(rings: Rings, number: int, positions: Positions) -> int:
    """Fill `positions` with a game's positions, up to the position `number` of the window. Returns its
    ply."""
    slot = signed(rings.game[number % len(rings.action)])
    first, start = rings.game_first[slot], rings.game_start[slot]
    # Word by word: assigning arrays may fail, and compiling the error message of that takes 2 seconds.
    for word in range(len(start)):
        positions[0, word] = start[word]
    ply, index = number - first, first % len(rings.action)
    for i in range(ply):
        play(positions[i], signed(rings.action[index]), positions[i + 1])
        index += 1
        if index == len(rings.action):
            index = 0
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
    # The identity, as in most samples of chess: nothing has to be moved.
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

    `share_of [actions of the game]` is scratch, all 0 before and after. Shares are looked up in it by action,
    so that the visits need not be searched for each action.
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
