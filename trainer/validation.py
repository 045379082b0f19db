"""Positions that the network is never trained on, which show whether it learns or memorises.

`HeldOut` keeps some games out of the window; if the loss falls on the window but rises on these games, the
network memorises. `Probes` are positions of known value (`games.spec.Game.probes`). `KnownPositions` are
positions whose best moves are known: they measure how often the network's bare policy errs (`azplay truth`
tests more of them, also with search). Whether a game is held out depends on its uid alone, so a restart or
another machine holds out the same games.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.game_history import GameHistory
from azselfplay.games.knowledge import Row, knowledge_of
from azselfplay.games.spec import MAX_PLIES, Game
from protocol.messages import MAX_RECORD
from trainer.sampler_kernel import Samples
from trainer.window import Window

if TYPE_CHECKING:  # imports torch, which `lab.experiments.judges` does not need
    from trainer.sampler import Sampler

POSITIONS = 1024
"""Positions that the loss is averaged over; cheaper than two training steps of 256."""
RANGE = 8192
"""Newest positions over which these are spread. All positions of a game have the same outcome, so the value
loss of neighbours says little: 1024 in a row can be 8 games of chess, or 50 of Connect Four."""
CAPACITY = 65_536
"""Most held-out positions kept, or those of the longest game; games are kept whole."""
SEED = 1
"""Seed for positions that are drawn at random: the same in every run."""


class HeldOut:
    """The held-out share of the games. Whole games are held out, because positions of the same game are very
    similar.

    share: share of all games, 0..1. positions: capacity of the training window; a game that does not fit
    there does not fit here. with_owners: as for the training window.
    """

    def __init__(self, game: Game, share: float, positions: int, *, with_owners: bool = False) -> None:
        self._below = int(share * 2**64)
        # The largest record has so many visits; a game that fits into the training window must fit here too.
        visits = min(MAX_PLIES * game.max_legal, MAX_RECORD // 4)
        longest = max(MAX_PLIES, int(visits / game.mean_legal) + 1)
        room = min(positions, max(CAPACITY, longest)) if share else 1
        self.window = Window(game, room, with_owners=with_owners)

    def takes(self, uid: bytes) -> bool:
        """Return whether the game with this uid is held out: the same answer at any time and on any
        machine."""
        if not self._below:
            return False
        # Hashes are spread evenly over the 64-bit numbers, however the uids were chosen.
        return int.from_bytes(hashlib.sha256(uid).digest()[:8], "little") < self._below

    def samples(self, sampler: Sampler) -> Samples | None:
        """Return positions to compute the loss on; None while there are too few for a meaningful loss."""
        if self.window.positions < POSITIONS // 4 or not self.window.targets:
            return None
        return sampler.spread_over_last(self.window, RANGE, POSITIONS)


class Probes(NamedTuple):
    """A game's probes as input of the network; the usual start position if the game has none."""

    names: tuple[str, ...]
    packed_features: npt.NDArray[np.uint64]
    """[n, feature_words], each without history."""

    @classmethod
    def of(cls, game: Game, history: int) -> Probes:
        # Without probes, at least the value of the start position is shown.
        positions = game.probes or (("start", ""),)
        states = [game.notation.state_from_text(text) for _, text in positions]
        packed_features = np.array([game.features(state[None], 1, history) for state in states])
        return cls(tuple(name for name, _ in positions), packed_features)


class KnownPositions(NamedTuple):
    """Positions in which some move gives away the best result, as input of the network."""

    groups: tuple[str, ...]
    """Group of each row, such as `opening`."""
    packed_features: npt.NDArray[np.uint64]
    """[n, feature_words]"""
    legal: npt.NDArray[np.bool_]
    """[n, actions]"""
    keeps: npt.NDArray[np.bool_]
    """[n, actions] the actions that keep the best result with perfect play"""

    @classmethod
    def of(cls, game: Game, history: int, per_group: int) -> KnownPositions:
        """Return at most `per_group` positions of each group. The first call may take seconds, until the
        game is solved."""
        rows = [row for row in watched_rows(game) if row.matters] if per_group else []
        chosen: list[Row] = []
        for group in dict.fromkeys(row.group for row in rows):
            there = [row for row in rows if row.group == group]
            count = min(per_group, len(there))
            chosen += [there[at * len(there) // count] for at in range(count)]  # evenly spread
        return cls.of_rows(chosen, game, history)

    @classmethod
    def of_rows(cls, rows: Sequence[Row], game: Game, history: int) -> KnownPositions:
        """Return these positions, in their order."""
        packed_features = np.zeros((len(rows), game.feature_words(history)), np.uint64)
        legal, keeps = (np.zeros((len(rows), game.actions), np.bool_) for _ in range(2))
        for index, row in enumerate(rows):
            played = GameHistory(game, row.start)
            for action in row.moves:
                played.play(action)
            # Only as many positions as the network reads.
            seen = played.states[-history:]
            packed_features[index] = game.features(seen, len(seen), history)
            legal[index, played.legal_actions()] = True
            keeps[index, list(row.keeps)] = True
        return cls(tuple(row.group for row in rows), packed_features, legal, keeps)

    def errors(self, policy: npt.NDArray[np.float32]) -> dict[str, float]:
        """Return by group the share of the positions whose most likely legal action gives away the best
        result.

        policy: [n, actions] logits; -inf for actions that are not legal.
        """
        best = policy.argmax(axis=1)
        wrong = ~self.keeps[np.arange(len(best)), best]
        groups = np.array(self.groups)
        return {name: float(wrong[groups == name].mean()) for name in dict.fromkeys(self.groups)}


def watched_rows(game: Game) -> list[Row]:
    """Return the positions of a game that a trainer watches, if it has any."""
    solution = knowledge_of(game).solution
    if solution is None:
        return []
    if solution.plays_whole_games:
        return solution.rows(SEED, 0)
    return solution.watched_rows() if solution.watched_rows is not None else []


def final_watched_rows(game: Game) -> list[Row]:
    """Return other positions of the same kind, for final judgements, if the game has them; else the watched
    ones."""
    solution = knowledge_of(game).solution
    if solution is None or solution.plays_whole_games or solution.final_watched_rows is None:
        return watched_rows(game)
    return solution.final_watched_rows()
