"""The replay window: the newest positions, in flat ring buffers.

A position costs 17 bytes, and 4 for each visited action that there is room for (by default the game's mean
number of legal actions); a game costs 22 bytes and its start position, and there is room for games of five
positions. In chess this is 176 bytes a position, 3.5 GB for twenty million. Whole games are dropped, oldest
first. Features are not stored: `trainer.sampler` replays a game up to the position it needs.

The trick: positions, visits and games are numbered consecutively, and number `n` is stored at `n % capacity`
of its ring. So adding and dropping games moves no data, and a jitted reader needs no Python objects.

The sums by which policy-surprise weighting draws are computed when a game is added: `running_surprise` (slow
reference version: `tests/trainer/test_surprise.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import PLY_CAP, RECORDED, RESIGNATION, Game
from azselfplay.games.stubs import Movers
from protocol.records import POLICY_TARGET, GameRecord, check_bounds

Numbers = npt.NDArray[np.int64]

BY_RULES, BY_CAP, BY_PLAYER = 0, 1, 2
"""What ends a game: the rules, the length limit, or a player who resigns (in files: any agreement)."""
_ENDS = {PLY_CAP: BY_CAP, RESIGNATION: BY_PLAYER, RECORDED: BY_PLAYER}
"""By the reason in the record; all other reasons are rules."""


class Rings(NamedTuple):
    """The arrays that the jitted sampler reads."""

    action: npt.NDArray[np.uint16]
    """[positions] the action played."""
    visited: npt.NDArray[np.uint16]
    """[positions] number of root actions with visits."""
    is_target: npt.NDArray[np.uint8]
    """[positions] 1 when the visits are a policy target."""
    game: npt.NDArray[np.uint32]
    """[positions] slot of its game in the game ring."""
    visit_offset: npt.NDArray[np.uint32]
    """[positions] first visit, counted from the first visit of its game."""
    root_value: npt.NDArray[np.float32]
    """[positions] the search's value, for the side to move."""
    visit_action: npt.NDArray[np.uint16]
    """[visits]"""
    visit_count: npt.NDArray[np.uint16]
    """[visits]"""
    game_first: npt.NDArray[np.int64]
    """[games] number of its first position."""
    game_visit: npt.NDArray[np.int64]
    """[games] number of its first visit."""
    game_plies: npt.NDArray[np.int32]
    """[games]"""
    game_outcome: npt.NDArray[np.int8]
    """[games] +1, 0 or -1 for the first player."""
    game_end: npt.NDArray[np.uint8]
    """[games] BY_RULES, BY_CAP or BY_PLAYER."""
    game_start: npt.NDArray[np.uint64]
    """[games, state_words] its start position."""


class FinalBoards(NamedTuple):
    """Who owns the cells at the end of the games; empty if not requested."""

    owners: npt.NDArray[np.int8]
    """[games, cells] +1 the first player, -1 the second, 0 nobody."""
    known: npt.NDArray[np.uint8]
    """[games] 0 where the rules did not end the game: nothing is settled then."""
    signs: npt.NDArray[np.int8]
    """[positions] +1 where the first player moves, -1 where the second does."""


class Window:
    """The newest games, as many as fit into `positions` positions. Only one thread at a time may use it.

    positions: capacity (AlphaZero: the positions of its last 1,000,000 games). visited_per_position: room for
    visits, on average; 0 uses the game's mean number of legal actions. plies_per_game: determines the size of
    the table of games; if games are shorter than this on average, this table fills up first. with_surprise:
    store what `trainer.sampler.by_surprise` needs (4 bytes a position). with_owners: store `final_boards`, if
    the game has owners (a byte a position, and one for each cell a game).
    """

    def __init__(
        self,
        game: Game,
        positions: int,
        visited_per_position: float = 0.0,
        plies_per_game: float = 5.0,
        *,
        with_surprise: bool = False,
        with_owners: bool = False,
    ) -> None:
        visits = int(positions * (visited_per_position or game.mean_legal)) + 1
        games = int(positions / plies_per_game) + 1
        self.rings = Rings(
            action=np.zeros(positions, np.uint16),
            visited=np.zeros(positions, np.uint16),
            is_target=np.zeros(positions, np.uint8),
            game=np.zeros(positions, np.uint32),
            visit_offset=np.zeros(positions, np.uint32),
            root_value=np.zeros(positions, np.float32),
            visit_action=np.zeros(visits, np.uint16),
            visit_count=np.zeros(visits, np.uint16),
            game_first=np.zeros(games, np.int64),
            game_visit=np.zeros(games, np.int64),
            game_plies=np.zeros(games, np.int32),
            game_outcome=np.zeros(games, np.int8),
            game_end=np.zeros(games, np.uint8),
            game_start=np.zeros((games, game.state_words), np.uint64),
        )
        self._game = game
        # Mostly the same text in all games of a run, whose reading takes shogi 150 us.
        self._start_of = lru_cache(1)(game.notation.state_from_text)
        self.surprise: npt.NDArray[np.float32] = np.zeros(positions if with_surprise else 0, np.float32)
        """[positions] `running_surprise` of the position's game; or empty."""
        self._movers = Movers(game) if with_owners and game.owners else None
        owned = games if self._movers else 0
        self.final_boards = FinalBoards(
            owners=np.zeros((owned, game.cells), np.int8),
            known=np.zeros(owned, np.uint8),
            signs=np.zeros(positions if self._movers else 0, np.int8),
        )
        self._outcome_positions = [0, 0, 0]
        self.targets = 0
        """Number of positions that are policy targets: only these are trained on."""
        self._oldest_game = 0
        self._next_game = 0
        self.next_position = 0
        """Number that the next position will have."""
        self._next_visit = 0
        self.longest = 0
        """Plies of the longest game ever added, for which replays need room."""

    @property
    def capacity(self) -> int:
        return len(self.rings.action)

    @property
    def games(self) -> int:
        return self._next_game - self._oldest_game

    @property
    def is_full(self) -> bool:
        """Whether old games have been dropped to make room for newer ones."""
        return self._oldest_game > 0

    @property
    def first_position(self) -> int:
        """Number of the oldest position in the window."""
        if not self.games:
            return self.next_position
        return int(self.rings.game_first[self._oldest_game % len(self.rings.game_first)])

    @property
    def positions(self) -> int:
        return self.next_position - self.first_position

    def first_of_last(self, limit: int) -> int:
        """Return the number of the first of the newest `limit` positions (or of all, if there are fewer)."""
        return max(self.first_position, self.next_position - limit)

    @property
    def outcome_shares(self) -> dict[int, float]:
        """Return the shares of the positions by the outcome of their game: +1, 0, -1 for the first player."""
        total = max(1, self.positions)
        return {outcome: self._outcome_positions[outcome + 1] / total for outcome in (1, 0, -1)}

    def is_target(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return [n] whether the positions `numbers [n]` are policy targets: they have been
        searched, so their moves were not drawn at random."""
        found: npt.NDArray[np.bool_] = self.rings.is_target[numbers % self.capacity] > 0
        return found

    @property
    def bytes_per_position(self) -> float:
        """Memory of all rings when full, divided by the capacity."""
        rings = (*self.rings, *self.final_boards, self.surprise)
        return sum(ring.nbytes for ring in rings) / self.capacity

    def add(self, record: GameRecord) -> None:
        """Append one verified game, dropping the oldest ones until it fits.

        Raises ValueError when the game alone is larger than the window, and BadRecord for numbers that would
        lead the jitted sampler out of its arrays.
        """
        # Checked again, although the store has checked it: jitted code does not check where an action leads.
        check_bounds(record, self._game.actions, self._game.max_legal)
        plies, visits = record.plies, len(record.visits)
        if plies > self.capacity or visits > len(self.rings.visit_count):
            raise ValueError(
                f"a game of {plies} plies and {visits} visits does not fit into a window of "
                f"{self.capacity} positions; choose a larger --window.positions"
            )
        while self.games:
            oldest = self._oldest_game % len(self.rings.game_first)
            held = self._next_visit - int(self.rings.game_visit[oldest])
            # Of the three rings, the one that is full first decides.
            if (
                self.positions + plies <= self.capacity
                and held + visits <= len(self.rings.visit_count)
                and self.games < len(self.rings.game_first)
            ):
                break
            # Only the counts change: the game's entries stay in the rings until newer ones overwrite them.
            outcome, gone = int(self.rings.game_outcome[oldest]), int(self.rings.game_plies[oldest])
            self._outcome_positions[outcome + 1] -= gone
            # The game's record is no longer there, so count its targets in the ring.
            numbers = self.rings.game_first[oldest] + np.arange(gone)
            self.targets -= int(np.count_nonzero(self.is_target(numbers)))
            self._oldest_game += 1
        rings, at, slot = self.rings, self.next_position, self._next_game % len(self.rings.game_first)
        end = _ENDS.get(record.reason, BY_RULES)
        _put(rings.action, at, record.actions)
        _put(rings.visited, at, record.visited)
        _put(rings.is_target, at, record.flags & np.uint8(POLICY_TARGET))
        _put(rings.game, at, np.full(plies, slot, dtype=np.uint32))
        # The visits of each ply begin where those of the previous ply end.
        _put(rings.visit_offset, at, np.cumsum(record.visited, dtype=np.uint32) - record.visited)
        _put(rings.root_value, at, record.root_values)
        if len(self.surprise):
            _put(self.surprise, at, running_surprise(record))
        if self._movers is not None and self._game.owners is not None:
            # Computed once, when the game is added: a sample then only looks up its owners.
            boards = self.final_boards
            _put(boards.signs, at, self._movers(record.start, record.actions))
            boards.owners[slot] = self._game.owners(self._movers.last)
            boards.known[slot] = end == BY_RULES
        _put(rings.visit_action, self._next_visit, record.visit_actions)
        _put(rings.visit_count, self._next_visit, record.visits)
        rings.game_first[slot] = at
        rings.game_visit[slot] = self._next_visit
        rings.game_plies[slot] = plies
        rings.game_outcome[slot] = record.outcome
        rings.game_end[slot] = end
        rings.game_start[slot] = self._start_of(record.start)
        self._outcome_positions[record.outcome + 1] += plies
        self.targets += record.targets
        self._next_game += 1
        self.next_position += plies
        self._next_visit += visits
        self.longest = max(self.longest, plies)


def _put(ring: npt.NDArray[np.generic], number: int, values: npt.NDArray[np.generic]) -> None:
    """Write `values [n]` to `ring [room]` from place `number` on, wrapping around its end if needed."""
    at = number % len(ring)
    head = min(len(values), len(ring) - at)
    ring[at : at + head] = values[:head]
    # The values that did not fit before the end, if any.
    ring[: len(values) - head] = values[head:]


def surprises(record: GameRecord) -> npt.NDArray[np.float64]:
    """Return [plies] KL(pi || P) of policy targets, in nats; 0 for other plies, and where it is unknown."""
    is_target = (record.flags & POLICY_TARGET) != 0
    return np.where(is_target, np.nan_to_num(record.prior_kl.astype(np.float64)), 0.0)


def running_surprise(record: GameRecord) -> npt.NDArray[np.float32]:
    """Return [plies] the sum of `surprises` up to and including each ply."""
    return np.cumsum(surprises(record)).astype(np.float32)
