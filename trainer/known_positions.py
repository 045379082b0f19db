"""Positions whose best moves are known, to measure how often the network's own policy errs (`azplay truth`
tests more of them, also with search)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.game_history import GameHistory
from games.knowledge import Row, knowledge_of
from games.spec import Game

SEED = 1
"""Seed for positions that are drawn at random: the same in every run."""


def watched_rows(game: Game) -> list[Row]:
    """Return the positions of a game that a trainer watches, if it has any."""
    solution = knowledge_of(game).solution
    if solution is None:
        return []
    if solution.plays_whole_games:
        return solution.rows(SEED, 0)
    return solution.watched_rows() if solution.watched_rows is not None else []


def final_watched_rows(game: Game) -> list[Row]:
    """Return other positions of the same kind, for final judgements, if the game has them; else the same."""
    solution = knowledge_of(game).solution
    if solution is None or solution.plays_whole_games or solution.final_watched_rows is None:
        return watched_rows(game)
    return solution.final_watched_rows()


class KnownPositions(NamedTuple):
    """Positions in which some move loses the best result, as input of the network."""

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
        groups = dict.fromkeys(row.group for row in rows)
        chosen = (_spread([row for row in rows if row.group == group], per_group) for group in groups)
        return cls.of_rows([row for some in chosen for row in some], game, history)

    @classmethod
    def of_rows(cls, rows: Sequence[Row], game: Game, history: int) -> KnownPositions:
        """Return these positions, in their order."""
        packed_features = np.zeros((len(rows), game.feature_words(history)), np.uint64)
        legal, keeps = (np.zeros((len(rows), game.actions), np.bool_) for _ in range(2))
        for index, row in enumerate(rows):
            played = GameHistory(game, row.start)
            for action in row.moves:
                played.play(action)
            seen = played.states[-history:]
            game.rules.encode(seen, len(seen), history, packed_features[index])
            legal[index, played.legal_actions()] = True
            keeps[index, list(row.keeps)] = True
        return cls(tuple(row.group for row in rows), packed_features, legal, keeps)

    def errors(self, policy: npt.NDArray[np.float32]) -> dict[str, float]:
        """Return by group the share of the positions whose most likely legal action loses the best result.

        policy: [n, actions] logits.
        """
        best = np.where(self.legal, policy, -np.inf).argmax(axis=1)
        wrong = ~self.keeps[np.arange(len(best)), best]
        groups = np.array(self.groups)
        return {name: float(wrong[groups == name].mean()) for name in dict.fromkeys(self.groups)}


def _spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Return `count` rows, evenly spread over their order."""
    if len(rows) <= count:
        return list(rows)
    return [rows[at * len(rows) // count] for at in range(count)]
