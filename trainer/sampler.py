"""Draws training batches from the replay window, uniformly over positions or partly by surprise, and computes
their features when needed.

Only policy targets are drawn. Plies played without a search (random and sampled openings) are not, because
the outcome says how such play ends, not what their positions are worth (docs/decisions/0017). Positions with
a cheap search only continue their game (KataGo: weight 0).

Features are not stored: replaying a game costs some microseconds, while features of twenty million chess
positions would take 19 GB.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from games.jit import bind
from games.spec import Game, Symmetry
from games.stubs import bindings
from protocol.records import GameRecord
from trainer import sampler_kernel
from trainer.replies import replies
from trainer.sampler_kernel import Scratch, SymmetryMaps
from trainer.samples import Samples
from trainer.surprise import redrawn
from trainer.window import Window

MOST_DRAWS = 100
"""After so many draws the missing samples are chosen from a list of all targets. With 10 targets among 100
positions, one sample in 40,000 needs that."""


def by_surprise(
    window: Window, first: int, numbers: npt.NDArray[np.int64], draws: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Return [n]: in place of each position of `numbers [n]` one of its game, none before `first`, by `draws
    [n]` in [0, 1) (`trainer.surprise.redrawn`)."""
    rings = window.rings
    games = rings.game[numbers % window.capacity]
    bounds = rings.game_first[games], rings.game_plies[games].astype(np.int64)
    return redrawn(window.surprise, bounds, first, numbers, draws)


def target_positions(
    window: Window, rng: np.random.Generator, first: int, count: int
) -> npt.NDArray[np.int64]:
    """Return [count] policy targets from `first` on, drawn uniformly and with replacement.

    If there is none from `first` on, they are drawn from the whole window. Raises ValueError if that has none
    either.
    """
    numbers = rng.integers(first, window.next_position, count)
    for _ in range(MOST_DRAWS):
        again = ~window.is_target(numbers)
        if not again.any():
            return numbers
        numbers[again] = rng.integers(first, window.next_position, int(again.sum()))
    again = ~window.is_target(numbers)
    there = _targets_from(window, first)
    if not len(there):
        there = _targets_from(window, window.first_position)
    if not len(there):
        raise ValueError("no position of this window is a policy target")
    numbers[again] = rng.choice(there, int(again.sum()))
    return numbers


def _targets_from(window: Window, first: int) -> npt.NDArray[np.int64]:
    """Return [n] all targets from `first` on, ascending."""
    there = np.arange(first, window.next_position)
    return there[window.is_target(there)]


def _maps_of(game: Game, symmetries: Sequence[Symmetry]) -> SymmetryMaps:
    """Return the identity and then `symmetries`, in the kernel's format."""
    planes = [np.arange(game.planes_per_position), *(game.plane_map(one, 1) for one in symmetries)]
    return SymmetryMaps(
        cells=np.array([np.arange(game.cells), *(one.cells for one in symmetries)], np.int64),
        planes=np.array(planes, np.int64),
        actions=np.array([np.arange(game.actions), *(one.actions for one in symmetries)], np.int64),
        code_bits=game.code_bits,
    )


class Sampler:
    """Makes samples of one game. Holds scratch space: use one per thread.

    `symmetric`: transform each sample by a random symmetry of the board (AlphaGo Zero: yes; AlphaZero: no).
    `with_replies`: also make the targets of the reply head.
    """

    def __init__(
        self, game: Game, history: int, *, symmetric: bool = False, with_replies: bool = False
    ) -> None:
        self._game = game
        self._with_replies = with_replies
        self._history = history
        self._maps = _maps_of(game, game.symmetries if symmetric else ())
        self._write = bind([sampler_kernel], {game.name: bindings(game)}).write_samples
        self._scratch = Scratch(
            positions=np.zeros((game.max_plies + 1, game.state_words), dtype=np.uint64),
            packed=np.zeros(game.feature_words(history), dtype=np.uint64),
            legal=np.zeros(game.max_legal, dtype=np.uint16),
            share_of=np.zeros(game.actions, dtype=np.float32),
        )

    def warm(self, record: GameRecord) -> None:
        """Compile now (some seconds the first time) rather than at the first step."""
        window = Window(self._game, record.plies, len(record.visits) / record.plies)
        window.add(record)
        self.make(window, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def sample(
        self,
        window: Window,
        rng: np.random.Generator,
        count: int,
        newest: int | None = None,
        surprise_share: float = 0.0,
    ) -> Samples:
        """Return `count` policy targets, drawn uniformly and with replacement from a window that has any, or
        from the `newest` positions in it; `surprise_share` of them by surprise (the window must store it)."""
        first = window.first_position if newest is None else window.newest(newest)
        numbers = target_positions(window, rng, first, count)
        if surprise_share:
            chosen = rng.random(count) < surprise_share
            numbers[chosen] = by_surprise(window, first, numbers[chosen], rng.random(int(chosen.sum())))
        symmetries = rng.integers(0, len(self._maps.cells), count)
        return self.make(window, numbers, symmetries)

    def newest(self, window: Window, limit: int, count: int) -> Samples:
        """Return up to `count` positions spread evenly over the policy targets of the newest `limit`
        positions, without symmetries; none twice."""
        there = _targets_from(window, window.newest(limit))
        count = min(count, len(there))
        numbers = there[np.arange(count) * len(there) // max(count, 1)]
        return self.make(window, numbers, np.zeros(len(numbers), dtype=np.int64))

    def make(
        self, window: Window, numbers: npt.NDArray[np.int64], symmetries: npt.NDArray[np.int64]
    ) -> Samples:
        """Return samples of the positions `numbers [n]`, each through the symmetry `symmetries [n]` (0:
        identity).

        Raises IndexError for a position that is not in the window, and for a symmetry that does not exist.
        """
        self._check(window, numbers, symmetries)
        if window.longest >= len(self._scratch.positions):
            positions = np.zeros((window.longest + 1, self._game.state_words), dtype=np.uint64)
            self._scratch = self._scratch._replace(positions=positions)
        count = len(numbers)
        # More than is needed, but memory that is not written to costs nothing.
        room = count * self._game.max_legal
        samples = Samples(
            packed_features=np.empty((count, len(self._scratch.packed)), dtype=np.uint64),
            classes=np.empty(count, dtype=np.int64),
            root_values=np.empty(count, dtype=np.float32),
            capped=np.empty(count, dtype=np.uint8),
            plies_left=np.empty(count, dtype=np.int32),
            rows=np.empty(room, dtype=np.int64),
            actions=np.empty(room, dtype=np.int64),
            shares=np.empty(room, dtype=np.float32),
        )
        maps, history = self._maps, self._history
        entries = self._write(
            window.rings, window.starts, numbers, symmetries, maps, history, self._scratch, samples
        )
        return samples._replace(
            rows=samples.rows[:entries],
            actions=samples.actions[:entries],
            shares=samples.shares[:entries],
            replies=replies(window, numbers, maps.actions[symmetries]) if self._with_replies else None,
        )

    def _check(
        self, window: Window, numbers: npt.NDArray[np.int64], symmetries: npt.NDArray[np.int64]
    ) -> None:
        if len(symmetries) != len(numbers):
            raise IndexError(f"{len(symmetries)} symmetries for {len(numbers)} positions")
        bounds = (
            ("position", numbers, window.first_position, window.next_position),
            ("symmetry", symmetries, 0, len(self._maps.cells)),
        )
        for name, chosen, first, end in bounds:
            if len(chosen) and not (first <= chosen.min() and chosen.max() < end):
                raise IndexError(
                    f"{name} {chosen.min()} to {chosen.max()}: there are only {first} to {end - 1}"
                )
