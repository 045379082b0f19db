"""Training in rounds: all games of a round, then all steps that they allow, then the next weights version.

What a network becomes depends on nothing but the settings, however often trainer, worker or server were
stopped or killed on the way (docs/decisions/0014): games are counted by their numbers and not as they came
in, and no clock decides what a step is made of. `protocol.rounds` says which games a round has.
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
from store.reader import StoreReader
from trainer.config import TrainerConfig
from trainer.training_loop import TrainingLoop, Turn

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rounds:
    """The rounds of one run, in its store."""

    game: Game
    games: int
    """In a round."""
    seed: int
    """Of self-play: what uids come from."""
    reader: StoreReader

    def there(self, number: int) -> int:
        """How many games of this round are in the store."""
        return self.reader.count_between(*self._uids(number * self.games, (number + 1) * self.games))

    def positions(self, games: int) -> int:
        """Of the first `games` games."""
        return sum(plies for _, plies in self.reader.plies_between(*self._uids(0, games)))

    def records(self, first: int, end: int) -> list[GameRecord]:
        """The games number `first` to `end - 1`, in this order."""
        return list(self.reader.between(self.game, *self._uids(first, end)))

    def _uids(self, first: int, end: int) -> tuple[bytes, bytes]:
        return uid_of(self.seed, first), uid_of(self.seed, end)

    def first_of_newest(self, training: TrainingLoop, games: int) -> int:
        """Number of the game from which on the games before number `games` fill the window."""
        total = 0
        backwards = self.reader.plies_between(*self._uids(0, games))[::-1]
        for back, (uid, plies) in enumerate(backwards, start=1):
            total += plies if training.trains_on(uid) else 0
            if total >= training.window.capacity:
                return games - back
        return 0


class TrainingLoopInRounds(TrainingLoop):
    """`TrainingLoop` whose window changes between rounds only. `last_seq` of its checkpoints counts games."""

    def __init__(
        self, config: TrainerConfig, game: Game, history: int, preset: str, folder: Path, rounds: Rounds
    ) -> None:
        self._rounds = rounds
        self._has_warned = False
        self._positions = 0
        """Of all games taken in so far."""
        self.round_games = rounds.games
        super().__init__(config, game, history, preset, folder)

    def fill(self, reader: StoreReader, newest: int, most: int = 0) -> bool:  # noqa: ARG002
        """The window as it stood at the checkpoint; later games are taken in round by round."""
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
        """What a round consists of follows from the numbers of its games: nobody is left out."""
        if reader.quarantined() and not self._has_warned:
            self._has_warned = True
            log.warning(
                "in rounds (--self-play.round-games) all games are trained on: quarantine has no effect"
            )
        return True

    def follow_quarantine(self, reader: StoreReader) -> None:
        """Nobody is left out."""

    def turn(
        self,
        games: Sequence[GameRecord],  # noqa: ARG002
        last_seq: int,  # noqa: ARG002
        positions: int,  # noqa: ARG002
        players: Sequence[str] = (),  # noqa: ARG002
    ) -> Turn:
        """Go on for a while; what came in is looked up in the store."""
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
        """The weights that play the next round have its number."""
        self.version = self._last_seq // self.round_games
        return self.version, self.step, self._train_step.weights(self.version)

    def _go_on(self) -> bool:
        """One step, or the next round taken in when no step is due; False if neither can be done."""
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
