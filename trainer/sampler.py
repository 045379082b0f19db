"""Draws training batches from the replay window, uniformly over positions or partly by surprise, and computes
their features when needed.

Only policy targets are drawn. Plies played without a search (random openings) are not drawn: their outcome
says how such play ends, not what the positions are worth (docs/decisions/0017).

Features are not stored: replaying a game takes some microseconds, while the features of twenty million chess
positions would take 19 GB.

Imported games, which `azplay games RUN import` stores, come from other programs and from people. Their
records are recognised by having no visits, and the store marks them (`store.sqlite.IMPORTED`). They never
enter the window of self-play, but have a window of their own (`Imported`). They are used if
`samples.imported_share` is above 0. Then the policy target of a position is the move that was played, and the
value target (win minus loss) is the game's result, whatever `loss.value_q_share` is.

Training first makes steps of imported games alone, until each position was drawn `samples.per_position` times
on average; these steps do not count for the budget of self-play. From then on imported games are a share of
each step. More games may be imported while the trainer is stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import bind
from azselfplay.games.spec import Game
from azselfplay.games.stubs import Movers, bindings
from azselfplay.store.reader import StoreReader
from protocol.records import POLICY_TARGET, GameRecord
from trainer import sampler_kernel
from trainer.config import TrainerConfig
from trainer.loss import Head
from trainer.sampler_kernel import (
    OF_ENTRIES,
    OF_ROWS,
    Draws,
    Samples,
    Scratch,
    SymmetryMaps,
    concatenated,
    first_of,
    joined,
    room_for,
)
from trainer.window import Window

log = logging.getLogger(__name__)

MOST_DRAWS = 100
"""After this many draws, the missing samples are chosen from a list of all targets. With 10 targets among 100
positions, one sample in 40,000 needs this."""
MOST_TRIED = 400
"""Most moves tried for each sample with an immediate win, on average."""
MOVES_TRIED = 4
"""Moves tried in each drawn position: its game is replayed only once, and few samples have the same one."""
WINS_A_PART = 64
"""Samples with an immediate win that one thread looks for at a time."""
LEAST_PART = 512
"""Samples that are worth a thread of their own."""


class Sampler:
    """Makes samples of one game. Holds scratch space: only one thread at a time may use it.

    `threads`: number of threads that write a large batch; the samples are the same with any number.
    `symmetric`: transform each sample by a random symmetry of the board (AlphaGo Zero: yes; AlphaZero: no).
    `heads`: heads whose targets are made, too, by name.
    """

    def __init__(
        self,
        game: Game,
        history: int,
        *,
        threads: int = 1,
        symmetric: bool = False,
        heads: Mapping[str, Head] = MappingProxyType({}),
    ) -> None:
        self._game = game
        self._targets = {name: one.targets for name, one in heads.items()}
        self._history = history
        symmetries = game.symmetries if symmetric else ()
        planes = [np.arange(game.planes_per_position), *(game.plane_map(one, 1) for one in symmetries)]
        self.maps = SymmetryMaps(  # the identity first
            cells=np.array([np.arange(game.cells), *(one.cells for one in symmetries)], np.int64),
            planes=np.array(planes, np.int64),
            actions=np.array([np.arange(game.actions), *(one.actions for one in symmetries)], np.int64),
            code_bits=game.code_bits,
        )
        """Maps of all symmetries that samples may go through."""
        kernels = bind([sampler_kernel], {game.name: bindings(game)})
        self._write, self._write_wins = kernels.write_samples, kernels.write_wins
        self._scratch = [
            Scratch(
                positions=np.zeros((game.max_plies + 3, game.state_words), dtype=np.uint64),
                packed=np.zeros(game.feature_words(history), dtype=np.uint64),
                legal=np.zeros(game.max_legal, dtype=np.uint16),
                share_of=np.zeros(game.actions, dtype=np.float32),
                replies=np.zeros((3, game.max_legal), dtype=np.uint16),
            )
            for _ in range(threads)
        ]
        self._threads = ThreadPoolExecutor(threads, "samples")

    def warm(self, record: GameRecord, *, with_wins: bool = False) -> None:
        """Compile now (some seconds the first time) rather than at the first step; `with_wins`: also the code
        that `wins_share` needs."""
        # As small as possible: only types matter to the compiler.
        window = Window(self._game, record.plies, len(record.visits) / record.plies)
        window.add(record)
        one = np.zeros(1, dtype=np.int64)
        self.make(window, one, one)
        if with_wins:
            self.make_wins(window, Draws(one, one, one))

    def sample(
        self,
        window: Window,
        rng: np.random.Generator,
        count: int,
        last_positions: int | None = None,
        surprise_share: float = 0.0,
        wins_share: float = 0.0,
    ) -> Samples:
        """Return `count` policy targets, drawn uniformly and with replacement from a window that has any, or
        from its newest `last_positions`; a share `surprise_share` is drawn by surprise (which the window
        must store).

        Up to a share `wins_share` of the samples are positions beside the stored games in which a move wins
        at once (`trainer.sampler_kernel`)."""
        # Samples may be drawn from only a part of the window (`window.growth`).
        first = window.first_position if last_positions is None else window.first_of_last(last_positions)
        if wins_share:
            wins = self._sample_wins(window, rng, first, round(wins_share * count))
            # Fewer wins may have been found than wanted; the rest is drawn as usual, so that the batch is
            # full.
            rest = self.sample(window, rng, count - len(wins.classes), last_positions, surprise_share)
            return joined(rest, wins, policy_only=True)
        numbers = target_positions(window, rng, first, count)
        # The uniform draw chooses the game, and surprise a position of that game.
        if surprise_share:
            chosen = rng.random(count) < surprise_share
            numbers[chosen] = by_surprise(window, first, numbers[chosen], rng.random(int(chosen.sum())))
        symmetries = rng.integers(0, len(self.maps.cells), count)
        return self.make(window, numbers, symmetries)

    def spread_over_last(self, window: Window, limit: int, count: int) -> Samples:
        """Return up to `count` different positions, spread evenly over the policy targets among the newest
        `limit` positions, without symmetries."""
        there = _targets_from(window, window.first_of_last(limit))
        count = min(count, len(there))
        # Spread evenly, not at random: the positions are the same as long as the window is the same.
        numbers = there[np.arange(count) * len(there) // max(count, 1)]
        return self.make(window, numbers, np.zeros(len(numbers), dtype=np.int64))

    def make(
        self, window: Window, numbers: npt.NDArray[np.int64], symmetries: npt.NDArray[np.int64]
    ) -> Samples:
        """Return samples of the positions `numbers [n]`, each through the symmetry `symmetries [n]` (0:
        identity).

        Raises IndexError for a position that is not in the window, and for a symmetry that does not exist.
        """
        if len(symmetries) != len(numbers):
            raise IndexError(f"{len(symmetries)} symmetries for {len(numbers)} positions")
        self._check(window, numbers, symmetries)
        count, most = len(numbers), self._game.max_legal
        room = self._room(window, count)
        parts = max(1, min(len(self._scratch), count // LEAST_PART))
        ends = [count * part // parts for part in range(parts + 1)]

        def write(part: int) -> slice:
            """Write a part of the samples; return where its entries are."""
            begin, end = ends[part], ends[part + 1]
            own: dict[str, Any] = {name: getattr(room, name)[begin:end] for name in OF_ROWS}
            own |= {name: getattr(room, name)[begin * most : end * most] for name in OF_ENTRIES}
            some, through = numbers[begin:end], symmetries[begin:end]
            settings = self.maps, self._history, self._scratch[part]
            entries = self._write(window.rings, some, through, *settings, Samples(**own))
            own["rows"][:entries] += begin
            return slice(begin * most, begin * most + entries)

        if parts == 1:
            samples = first_of(room, count, write(0).stop)
        else:
            written = list(self._threads.map(write, range(parts)))
            columns: dict[str, Any] = {
                name: np.concatenate([getattr(room, name)[one] for one in written]) for name in OF_ENTRIES
            }
            samples = room._replace(**columns)
        if self._targets:
            found = {
                name: own.of(window, numbers, symmetries, self.maps) for name, own in self._targets.items()
            }
            samples = samples._replace(heads=found)
        return samples

    def _sample_wins(self, window: Window, rng: np.random.Generator, first: int, most: int) -> Samples:
        """Return up to `most` samples with an immediate win beside positions from `first` on."""
        parts = max(1, -(-most // WINS_A_PART))
        draws = []
        for part in range(parts):
            wanted = len(range(part, most, parts))
            tried = MOST_TRIED * wanted // MOVES_TRIED  # most positions have no win beside them
            numbers = rng.integers(first, window.next_position, tried).repeat(MOVES_TRIED)
            # Modulo the number of legal moves (`write_wins`), so that these are mostly different moves.
            moves = rng.integers(0, self._game.max_legal, (tried, 1)) + np.arange(MOVES_TRIED)
            draws.append(Draws(numbers, moves.ravel(), rng.integers(0, len(self.maps.cells), wanted)))
        threads = min(parts, len(self._scratch))

        def find(thread: int) -> list[Samples]:
            return [self.make_wins(window, one, thread) for one in draws[thread::threads]]

        found = [find(0)] if threads == 1 else list(self._threads.map(find, range(threads)))
        # In the order of the parts, so that the samples are the same with any number of threads.
        return concatenated([found[part % threads][part // threads] for part in range(parts)])

    def make_wins(self, window: Window, draws: Draws, thread: int = 0) -> Samples:
        """Return samples of positions that are one move beside the drawn ones, and in which the side to move
        wins at once (`sampler_kernel.write_wins`): at most one for each of `draws.symmetries [n]`. `thread`:
        whose scratch space is used. Raises as `make`."""
        self._check(window, draws.numbers, draws.symmetries)
        samples = self._room(window, len(draws.symmetries))
        rows, entries = self._write_wins(
            window.rings, draws, self.maps, self._history, self._scratch[thread], samples
        )
        return first_of(samples, rows, entries)

    def _room(self, window: Window, count: int) -> Samples:
        """Return empty rows for `count` samples, and enlarge the scratch space for the longest game."""
        if window.longest + 3 > len(self._scratch[0].positions):
            shape = window.longest + 3, self._game.state_words
            self._scratch = [one._replace(positions=np.zeros(shape, np.uint64)) for one in self._scratch]
        return room_for(count, len(self._scratch[0].packed), self._game.max_legal)

    def _check(
        self, window: Window, numbers: npt.NDArray[np.int64], symmetries: npt.NDArray[np.int64]
    ) -> None:
        bounds = (
            ("position", numbers, window.first_position, window.next_position),
            ("symmetry", symmetries, 0, len(self.maps.cells)),
        )
        for name, chosen, first, end in bounds:
            if len(chosen) and not (first <= chosen.min() and chosen.max() < end):
                raise IndexError(
                    f"{name} {chosen.min()} to {chosen.max()}: there are only {first} to {end - 1}"
                )


def target_positions(
    window: Window, rng: np.random.Generator, first: int, count: int
) -> npt.NDArray[np.int64]:
    """Return [count] policy targets from `first` on, drawn uniformly and with replacement.

    If there is none from `first` on, they are drawn from the whole window. Raises ValueError if the window
    has none.
    """
    # Draw again in place of non-targets: this keeps the draw uniform without a list of all targets.
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


def by_surprise(
    window: Window, first: int, numbers: npt.NDArray[np.int64], draws: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Return for each of the positions `numbers [n]` a position of the same game, drawn in proportion to
    surprise.

    first: no position before this one is drawn, even of the same game. draws: [n] uniform in [0, 1). A
    position of a game without surprise is returned unchanged.
    """
    rings, running, capacity = window.rings, window.surprise, window.capacity
    games = rings.game[numbers % capacity]
    begins, plies = rings.game_first[games], rings.game_plies[games].astype(np.int64)
    # Where `numbers` has positions before `first`, because there are no targets after it, the rest of the
    # game has none.
    high = begins + plies - 1
    low = np.where(high < first, begins, np.maximum(begins, first))
    # Sums run from the first position of a game; subtract the part before `low`, which is not drawn.
    before = np.where(low > begins, running[(low - 1) % capacity], 0.0).astype(np.float64)
    total = running[high % capacity] - before
    wanted, stays = before + draws * total, total <= 0
    # Find the first position whose sum exceeds the drawn one, by a binary search for all rows at once.
    while (open_rows := low < high).any():
        middle = (low + high) // 2
        is_left = running[middle % capacity] > wanted
        low = np.where(open_rows & ~is_left, middle + 1, low)
        high = np.where(open_rows & is_left, middle, high)
    return np.where(stays, numbers, low)


class Imported:
    """The newest imported games of a run, at most `positions` positions; none while the share is 0."""

    def __init__(self, game: Game, config: TrainerConfig) -> None:
        self._game, self._settings, self._most = game, config.samples, config.window.positions
        self._win_discount = config.loss.win_discount
        self.window: Window | None = None
        """None without games, and before `fill`."""
        self.samples = 0
        """Samples of the steps of imported games alone."""
        self.allowed = 0.0
        """Samples that imported games have allowed these steps, each position at the ratio when it came."""
        self.last_seq = 0
        """`seq` of the newest game that `allowed` includes."""
        self._is_read = False

    def fill(self, reader: StoreReader) -> None:
        """Read the games from the store, once: more can be imported only while no trainer runs."""
        if self._is_read or not self._settings.imported_share:
            return
        self._is_read = True
        numbers, positions = reader.imported(self._most)
        if not numbers:
            log.warning("samples.imported_share is set, and this run has no imported games")
            return
        movers = Movers(self._game)
        # Exactly as large as needed: each position has one visited move, and a game at least one position.
        self.window = Window(self._game, positions, 1.0, 1.0)
        # A backup may lack imported games, whose numbers others then get.
        self.last_seq, new = min(self.last_seq, reader.span()[1]), 0
        for stored, record in reader.records_of(self._game, numbers):
            signs = movers(record.start, record.actions)
            self.window.add(with_played_targets(record, signs, self._win_discount))
            new += record.plies if stored.seq > self.last_seq else 0
        self.allowed += self._settings.per_position * new
        self.last_seq = max(self.last_seq, numbers[-1])
        if not self.window.games:
            log.warning("no imported game could be read")
            self.window = None
            return
        log.info("%d imported games with %d positions", self.window.games, self.window.positions)

    def steps(self, batch: int) -> int:
        """Return how many steps of imported games alone are left."""
        if self.window is None or not self.window.positions:
            return 0
        return max(0, int((self.allowed - self.samples) // batch))

    def alone(self, sampler: Sampler, rng: np.random.Generator, batch: int) -> Samples:
        """Return the samples of a step of imported games alone."""
        assert self.window is not None
        self.samples += batch
        return sampler.sample(self.window, rng, batch)

    def count(self, batch: int) -> int:
        """Return how many samples of each other step come from imported games."""
        return 0 if self.window is None else round(self._settings.imported_share * batch)

    def added(self, samples: Samples, sampler: Sampler, rng: np.random.Generator, count: int) -> Samples:
        """Return `samples` and `count` samples of imported games."""
        if self.window is None or not count:
            return samples
        return joined(samples, sampler.sample(self.window, rng, count), policy_only=False)


def with_played_targets(record: GameRecord, signs: npt.NDArray[np.int8], win_discount: float) -> GameRecord:
    """Return an imported game as if a search had visited only the played move of each position, with the
    game's result as its value, faded by `win_discount` as in `loss.outcome_targets`. `signs` [plies]: +1
    where the first player moves, else -1."""
    faded = win_discount ** np.arange(record.plies, 0, -1)
    ones = np.ones(record.plies, np.uint16)
    return replace(
        record,
        visited=ones,
        visit_actions=record.actions,
        visits=ones,
        flags=np.full(record.plies, POLICY_TARGET, np.uint8),
        root_values=(signs * record.outcome * faded).astype(np.float32),
    )
