"""Training in rounds: all games of a round, then all steps that they allow, then the next weights version.

The network depends on nothing but the settings, however often trainer, worker or server were stopped or
killed on the way (docs/decisions/0014). Games are used by their numbers, not in order of arrival, and no
clock affects a step. `protocol.rounds` says which games a round has.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from games.spec import Game
from protocol.records import GameRecord
from protocol.rounds import uid_of
from runtime.exits import Exit, Fatal
from store.reader import StoreReader
from trainer.config import TrainerConfig
from trainer.training_loop import TrainingLoop, Turn

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rounds:
    """The rounds of one run, in its store."""

    game: Game
    games: int
    """Games in a round."""
    seed: int
    """The seed of self-play, from which uids are derived."""
    reader: StoreReader

    def there(self, number: int) -> int:
        """Return how many games of this round are in the store."""
        return self.reader.count_between(*self._uids(number * self.games, (number + 1) * self.games))

    def positions(self, games: int) -> int:
        """Return the number of positions of the first `games` games."""
        return sum(plies for _, plies in self.reader.plies_between(*self._uids(0, games)))

    def records(self, first: int, end: int) -> list[GameRecord]:
        """Return the games number `first` to `end - 1`, in this order."""
        return list(self.reader.between(self.game, *self._uids(first, end)))

    def _uids(self, first: int, end: int) -> tuple[bytes, bytes]:
        return uid_of(self.seed, first), uid_of(self.seed, end)

    def first_of_newest(self, training: TrainingLoop, games: int) -> int:
        """Return the number of the first game such that the games from it up to number `games` fill the
        window."""
        total = 0
        backwards = self.reader.plies_between(*self._uids(0, games))[::-1]
        for back, (uid, plies) in enumerate(backwards, start=1):
            total += plies if training.trains_on(uid) else 0
            if total >= training.window.capacity:
                return games - back
        return 0


class TrainingLoopInRounds(TrainingLoop):
    """A `TrainingLoop` whose window changes between rounds only. `last_seq` of its checkpoints counts
    games."""

    def __init__(
        self, config: TrainerConfig, game: Game, history: int, preset: str, folder: Path, rounds: Rounds
    ) -> None:
        if config.optimizer.cosine_minutes:
            raise Fatal(
                "--optimizer.cosine-minutes follows the clock, and a run in rounds repeats bit by bit on any "
                "machine: use --optimizer.cosine-steps",
                Exit.CONFIG,
            )
        self._rounds = rounds
        self._has_warned = False
        self._positions = 0
        """Positions of all games used so far."""
        self.round_games = rounds.games
        super().__init__(config, game, history, preset, folder)

    def fill(self, reader: StoreReader, newest: int, most: int = 0) -> bool:  # noqa: ARG002
        """Restore the window of the checkpoint; later games are added round by round."""
        if self._filled is not None:
            return True
        self._filled = newest
        taken = self._last_seq
        for record in self._rounds.records(self._rounds.first_of_newest(self, taken), taken):
            self._add(record, counts=False)
        self._positions = self._rounds.positions(taken)
        self._grow(self._positions)
        return True

    def follows_quarantine(self, reader: StoreReader) -> bool:
        """Return True: the games of a round follow from their numbers, so no player is left out."""
        if reader.quarantined() and not self._has_warned:
            self._has_warned = True
            log.warning(
                "in rounds (--self-play.round-games) all games are trained on: quarantine has no effect"
            )
        return True

    def follow_quarantine(self, reader: StoreReader) -> None:
        """Do nothing: no player is left out."""

    def turn(
        self,
        games: Sequence[GameRecord],  # noqa: ARG002
        last_seq: int,  # noqa: ARG002
        positions: int,  # noqa: ARG002
        players: Sequence[str] = (),  # noqa: ARG002
    ) -> Turn:
        """Train for a while on games found in the store."""
        deadline = time.monotonic() + self.turn_seconds
        while self._go_on() and time.monotonic() < deadline:
            pass
        finished = self._last_seq // self.round_games
        there = self._rounds.there(finished)
        due = self._steps_due()
        waiting_for = (
            ""
            if due or there == self.round_games
            else (f"games of round {finished}: {there} of {self.round_games} are there")
        )
        return self._turn(bool(due) or there == self.round_games, waiting_for, None if due else finished)

    def publish(self, server_version: int) -> tuple[int, int, bytes]:  # noqa: ARG002
        """Return the weights for the next round, whose version is that round's number."""
        self.version = self._last_seq // self.round_games
        return self.version, self.step, self._train_step.weights(self.version)

    def _go_on(self) -> bool:
        """Make one step, or add the next round when no step is due. Returns False if neither is possible."""
        if self._steps_due():
            self.make_step()
            return True
        finished = self._last_seq // self.round_games
        if self._rounds.there(finished) < self.round_games:
            return False
        for record in self._rounds.records(self._last_seq, self._last_seq + self.round_games):
            self._add(record)
            self._positions += record.plies
        self._last_seq += self.round_games
        self._grow(self._positions)
        return True
