"""Window, sampler and network together: adds games, and makes the steps that they allow."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.store.reader import StoreReader
from net.architectures.network import Network
from protocol.records import BadRecord, GameRecord
from trainer import checkpoint
from trainer.checkpoint import Progress, architecture_of, check_heads, new_network
from trainer.config import TrainerConfig
from trainer.loss import trained_heads
from trainer.pacing import Quarantine, SampleBudget, grown_window
from trainer.ranks import Ranks
from trainer.sampler import Imported, Sampler
from trainer.train_step import HeldOutFigures, StepFigures, TrainStep, choose_device, not_finite
from trainer.validation import RANGE, HeldOut, KnownPositions, Probes
from trainer.window import Window

log = logging.getLogger(__name__)

KNOWN_POSITIONS = 100
"""Most positions of each group with a known result, on which the policy of new weights is checked."""
TURN_SECONDS = 0.5
"""Seconds for which a turn makes steps, before new games may enter the window."""


@dataclass(frozen=True)
class Turn:
    """The result of a turn."""

    step: int
    """Steps made so far."""
    window_positions: int
    """Positions that steps draw from."""
    figures: StepFigures | None
    """Means over this turn's steps; None if there were none."""
    more: bool
    """Whether further steps are allowed already."""
    waiting_for: str
    outcome_shares: dict[int, float]
    """Shares of the positions in the window, by the outcome of their game (+1, 0, -1 for the first
    player)."""
    weight_norm: float
    """Norm of all trained weights."""
    samples_per_position: float | None
    """Samples for each position that may be trained on, over all games so far; None without positions, and
    while steps of imported games alone hold up those of self-play."""
    samples: int
    """Samples of self-play trained on so far."""
    allowed: float | None
    """Samples that the games have allowed so far; None if `samples_per_position` is."""


class TrainingLoop:
    """Everything that a training step uses. Only one thread at a time may use it."""

    turn_seconds = TURN_SECONDS

    def __init__(
        self,
        config: TrainerConfig,
        game: Game,
        history: int,
        preset: str,
        folder: Path,
        ranks: Ranks | None = None,
        step: int = 0,
    ) -> None:
        """Continue from the newest checkpoint in `folder`, or begin with a new network at `step`; `ranks` as
        for `TrainStep`."""
        self._config = config
        self._folder = folder
        self._game = game
        self._history = history
        self._probes = Probes.of(game, history)
        self._optimizer = config.optimizer.filled_in()
        window, samples = config.window, config.samples
        self.budget = SampleBudget(self._optimizer.batch, samples.per_position, window.min_positions)
        self.quarantine = Quarantine(self.budget)
        self._imported = Imported(game, config)
        self._empty_window()
        self._began = time.monotonic()
        """When training began, if it had never paused: a restart subtracts the minutes before it."""
        self._draw_from_last = window.positions
        """Number of newest positions to draw from."""
        self._sampler = Sampler(
            game,
            history,
            threads=config.threads(),
            symmetric=samples.symmetric == "auto",
            heads=trained_heads(config.loss),
        )
        self._rng = np.random.default_rng(config.seed)
        self.version = 0
        """Highest weights version offered so far."""
        self.last_seq = 0
        """`seq` of the newest game that training knows."""
        self.has_checkpoint = False
        """Whether a restart could continue from a checkpoint."""
        self._known = 0
        """`seq` of the newest game that was in the budget before the restart."""
        found = checkpoint.load_newest(folder, game, history)
        played = found.network if found else new_network(config, game, history, preset)
        trained = found.trained if found else None
        device = choose_device(config.device)
        self._train_step = TrainStep(
            game, history, played, self._optimizer, config.loss, device, trained, ranks
        )
        if found is not None:
            self._restore(found)
        elif step:
            self._train_step.restore(step, None)
        self._train_step.broadcast_state()

    def _restore(self, found: checkpoint.Checkpoint) -> None:
        progress = found.progress
        wanted = self._config.net
        if wanted and architecture_of(wanted) != found.network.architecture.played:
            raise Fatal(
                f"this run trains another network than --net {self._config.net}; leave out --net to go on "
                "with it, or choose another --run",
                Exit.CONFIG,
            )
        check_heads(self._config, found.network)
        if self._config.weights:
            log.warning("the run goes on from its checkpoint: --weights is for runs without one")
        self.has_checkpoint = True
        # The state of one kind of optimizer means nothing to the other.
        same = progress.optimizer == self._optimizer.kind
        if not same:
            log.warning("the optimizer is now %s; it starts with a new state", self._optimizer.kind)
        self._train_step.restore(progress.step, found.optimizer_state if same else None)
        self._rng = found.rng
        self.version, self.last_seq = progress.version, progress.last_seq
        self.budget.restore(progress.samples, progress.learned_from, progress.allowed, progress.forgiven)
        self.quarantine.restore(progress.quarantined)
        imported = self._imported
        imported.samples, imported.allowed = progress.imported, progress.imported_allowed
        imported.last_seq = progress.imported_seq
        self._began -= 60 * progress.minutes
        log.info("going on from step %d, weights version %d", progress.step, progress.version)

    def _empty_window(self) -> None:
        """Make new windows, for training and for held-out games; `fill` reads games into both."""
        window, samples = self._config.window, self._config.samples
        with_owners = "ownership" in self._config.loss.head_weights
        self.window = Window(
            self._game, window.positions, with_surprise=samples.surprise_share > 0, with_owners=with_owners
        )
        self._held_out = HeldOut(self._game, samples.held_out, window.positions, with_owners=with_owners)
        self._filled: int | None = None
        """`seq` up to which stored games were read; None before `fill`."""
        self._first_in_window = 1
        """`seq` from which on `fill` reads games to train on. Of those before, it takes the held-out ones."""

    @property
    def step(self) -> int:
        return self._train_step.step

    def warm(self, record: GameRecord) -> None:
        """Compile now (some seconds the first time) rather than at the first step."""
        self._sampler.warm(record, with_wins=self._config.samples.wins_share > 0)

    def fill(self, reader: StoreReader, up_to_seq: int, most: int = 0) -> bool:
        """Read stored games into the window, so that it is as before the restart.

        Games up to the checkpoint's newest come first, so the window is the same; later games follow. Each
        call reads `most` games (0: all), and the next call continues after them, perhaps up to a later
        `up_to_seq`. Returns True once all games up to `up_to_seq` are read.
        """
        if self._filled is None:
            # A store that was restored from a backup may end before the checkpoint.
            self.last_seq = min(self.last_seq, up_to_seq)
            # The checkpoint's budget contains the games up to here: they only return to the window.
            self._known = self.last_seq
            # Begin with the oldest game that fits into the window now, or that fitted at the checkpoint.
            ends = (up_to_seq, self.last_seq) if 0 < self.last_seq < up_to_seq else (up_to_seq,)
            # The games held out may be few, so that those that their figures need begin before the window.
            wanted = [(self.window.capacity, self.trains_on)]
            if self._config.samples.held_out:
                wanted.append((min(RANGE, self._held_out.window.capacity), self._held_out.takes))
            quarantined = self.quarantine.players
            firsts = [
                min(reader.first_of_newest(positions, end, counts, quarantined) for end in ends)
                for positions, counts in wanted
            ]
            if reader.was_dropped(firsts[0]):
                log.warning("the window lacks games whose records were dropped; set a larger --keep-games")
            self._filled, self._first_in_window = min(firsts) - 1, firsts[0]
            self._imported.fill(reader)
        end = min(up_to_seq, self._filled + most) if most else up_to_seq
        old = reader.old_between(self._filled + 1, end)
        players = reader.players_between(self._filled + 1, end) if self.quarantine.players else {}
        for stored, record in reader.records_of(self._game, range(self._filled + 1, end + 1)):
            seq = stored.seq
            # Stored, but not trained on: `store.sqlite.Entry.is_old`.
            if seq in old or (seq < self._first_in_window and not self._held_out.takes(record.uid)):
                continue
            try:
                self._add(record, players.get(seq, ""), counts=seq > self._known)
            except ValueError as error:
                # Stored under settings that allowed longer games: it stays in the store, but is not used.
                log.warning("game %d of the store is left out of the window: %s", seq, error)
        self._filled = max(self._filled, end)
        self.last_seq = max(self.last_seq, self._filled)
        return self._filled >= up_to_seq

    def is_quarantine_current(self, reader: StoreReader) -> bool:
        """Return whether the quarantine in the store is still the one that training follows; True while the
        store cannot be read."""
        try:
            return reader.quarantined() == self.quarantine.players
        except Fatal as fatal:
            # A lock, or a network disk that is away for a moment. A damaged file is something else.
            if fatal.code != Exit.DISK:
                raise
            log.warning("the quarantine is not looked at: %s", fatal)
            return True

    def apply_quarantine(self, reader: StoreReader) -> None:
        """Adapt the budget to the quarantine in the store. The window is empty afterwards, so `fill` must
        follow, which also reads the games that came since the last `turn`."""
        wanted, now = reader.quarantined(), self.quarantine.players
        for player in sorted(wanted - now):
            # Count the player's positions in the budget in the same way as `_add`.
            numbers, positions = reader.games_of(player, self.last_seq), 0
            old = reader.old_between(numbers[0], numbers[-1]) if numbers else frozenset()
            for stored in reader.rows_of([seq for seq in numbers if seq not in old]):
                with contextlib.suppress(BadRecord):
                    record = stored.record(self._game)
                    positions += record.targets if self.trains_on(record.uid) else 0
            self.quarantine.take(player, positions)
        for player in sorted(now - wanted):
            self.quarantine.give_back(player)
        self._empty_window()

    def turn(
        self, games: Sequence[GameRecord], last_seq: int, positions: int, players: Sequence[str] = ()
    ) -> Turn:
        """Add `games` and make steps for a while.

        last_seq: `seq` of the newest of `games` in the store. positions: positions of all games so far.
        players: the player of each game; empty: nobody in quarantine. Raises Fatal if the loss is not finite
        any more.
        """
        for record, player in zip(games, players or [""] * len(games), strict=True):
            self._add(record, player)
        self.grow(positions)
        # While the window grows, samples are drawn from only a part of the positions that it holds.
        drawn_from = self.window.next_position - self.window.first_of_last(self._draw_from_last)
        self.budget.limit(int(self.window.targets * drawn_from / max(self.window.positions, 1)))
        self.last_seq = max(self.last_seq, last_seq)
        # Make only some of the steps: in between, new games must enter the window and weights be published.
        deadline = time.monotonic() + self.turn_seconds
        steps = self._imported.steps(self._optimizer.batch) or self.budget.steps(self._drawable)
        while steps and time.monotonic() < deadline:
            self.make_step()
            steps -= 1
        figures = self._train_step.figures()
        if figures is not None and not all(map(math.isfinite, (*figures[:-1], *figures.heads.values()))):
            raise not_finite("loss", self.step)
        is_warm_start = self._imported.steps(self._optimizer.batch) > 0
        learned_from = 0 if is_warm_start else self.budget.learned_from
        return Turn(
            step=self.step,
            window_positions=drawn_from,
            figures=figures,
            more=steps > 0,
            waiting_for="" if steps else self.budget.waiting_for(self._drawable),
            outcome_shares=self.window.outcome_shares,
            weight_norm=self._train_step.weight_norm(),
            samples_per_position=self.budget.samples / learned_from if learned_from else None,
            samples=self.budget.samples,
            allowed=self.budget.allowed if learned_from else None,
        )

    def grow(self, positions: int) -> None:
        """Draw from as many of the newest positions as `window.growth` wants after `positions` in all games,
        not only in those of the window."""
        if self._config.window.growth:
            self._draw_from_last = grown_window(positions, self._config.window.growth_min)

    @property
    def minutes(self) -> float:
        """Return the minutes of training, over all starts of the trainer."""
        return (time.monotonic() - self._began) / 60

    @property
    def _drawable(self) -> int:
        """Return the positions in the window, 0 while none of them is a policy target. A window with no room
        for more counts as having `min_positions`: training would otherwise wait for ever."""
        # Short games, or games with many visits, fill the rings of games or visits first.
        least = self._config.window.min_positions if self.window.is_full else 0
        return max(self.window.positions, least) if self.window.targets else 0

    def trains_on(self, uid: bytes) -> bool:
        """Return whether the game with this uid is trained on rather than held out."""
        return not self._held_out.takes(uid)

    def _add(self, record: GameRecord, player: str = "", *, counts: bool = True) -> None:
        """Add a game. `counts`: whether it counts for the budget; False if it only returns to the window
        after a restart. Raises ValueError if it does not fit."""
        is_held_out = self._held_out.takes(record.uid)
        # Counted separately, so that a release gives back exactly this amount.
        if player in self.quarantine.players:
            if counts and not is_held_out:
                self.quarantine.add(player, record.targets)
            return
        if is_held_out:
            self._held_out.window.add(record)
            return
        self.window.add(record)
        if counts:
            self.budget.add_positions(record.targets)

    def make_step(self) -> None:
        """Make one step, whether or not it is due."""
        batch, settings = self._optimizer.batch, self._config.samples
        shares = settings.surprise_share, settings.wins_share
        minutes = self.minutes
        if self._imported.steps(batch):
            self._train_step.train(self._imported.alone(self._sampler, self._rng, batch), minutes)
            return
        more = self._imported.count(batch)
        samples = self._sampler.sample(self.window, self._rng, batch - more, self._draw_from_last, *shares)
        self._train_step.train(self._imported.added(samples, self._sampler, self._rng, more), minutes)
        self.budget.take_step()

    def measured(self) -> tuple[HeldOutFigures | None, dict[str, float], dict[str, float]] | None:
        """Return `held_out`, `probe_values` and `known_errors`; None if the device lacks memory for
        them (steps are computed in parts)."""
        with contextlib.suppress(torch.OutOfMemoryError):
            return self.held_out(), self.probe_values(), self.known_errors()
        log.warning("the figures of new weights are left out: the device is short of memory")
        return None

    def held_out(self) -> HeldOutFigures | None:
        """Return the loss on games never trained on; None while there are too few."""
        samples = self._held_out.samples(self._sampler)
        return None if samples is None else self._train_step.evaluate(samples)

    def probe_values(self) -> dict[str, float]:
        """Return the values that the network that plays gives to positions of known value, by name."""
        values = self.values(self._probes.packed_features).tolist()
        return dict(zip(self._probes.names, values, strict=True))

    def values(self, packed_features: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
        """Return [n] the values that the network that plays gives to `packed_features [n, feature_words]`."""
        return self._train_step.values(packed_features)

    def policies(
        self, packed_features: npt.NDArray[np.uint64], legal: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        """Return [n, actions] the same network's policy logits of the `legal` actions [n, actions]; -inf for
        others."""
        return self._train_step.policies(packed_features, legal)

    @cached_property
    def _known_positions(self) -> KnownPositions:
        return KnownPositions.of(self._game, self._history, KNOWN_POSITIONS)

    def known_errors(self) -> dict[str, float]:
        """Return by group how often the policy of the network that plays errs in known positions, 0 to 1; {}
        for a game that is not solved."""
        known = self._known_positions
        return known.errors(self.policies(known.packed_features, known.legal)) if known.groups else {}

    def export_weights(self, newest_version: int) -> tuple[int, int, bytes]:
        """Return `(version, step, file)` of the network that plays (with `ema`: the average), with a version
        above `newest_version`: the server and the stored games may be newer than this run's checkpoint."""
        self.version = max(self.version, newest_version) + 1
        file = self._train_step.weights(self.version, half=self._config.publishing.half)
        return self.version, self.step, file

    def save(self) -> None:
        """Write a checkpoint."""
        progress = Progress(
            step=self.step,
            samples=self.budget.samples,
            version=self.version,
            last_seq=self.last_seq,
            optimizer=self._optimizer.kind,
            learned_from=self.budget.learned_from,
            allowed=self.budget.allowed,
            quarantined=self.quarantine.as_dict(),
            minutes=self.minutes,
            imported=self._imported.samples,
            forgiven=self.budget.forgiven,
            imported_allowed=self._imported.allowed,
            imported_seq=self._imported.last_seq,
        )
        # Always version 0, so that a step saved before and after publishing has the same weights file.
        weights, trained = self._train_step.weights(0), self._train_step.trained_weights()
        state = self._train_step.optimizer.state_dict()
        checkpoint.save(self._folder, progress, weights, state, self._rng, trained)
        self.has_checkpoint = True

    @property
    def architecture(self) -> str:
        """Return the size of the network, as text for people."""
        network: Network = self._train_step.network
        return network.architecture.name
