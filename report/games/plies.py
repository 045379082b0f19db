"""A stored game, ply by ply, as text: what is shown and what is exported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from games.game_history import GameHistory
from games.spec import Game
from protocol.records import GameRecord


@dataclass(frozen=True)
class Ply:
    """A move and what the search before it found."""

    side: int
    """Who made it, 0: the first player."""
    move: str
    value: float
    """Of the root after search, for the side that moves, in [-1, 1]."""
    visits: int
    """Of the move that was played."""
    all_visits: int
    most_visited: tuple[tuple[str, int], ...]
    """Moves and their visits, most visited first."""
    prior_value: float | None = None
    """The network's own value of the root, before the search; None: not known, like the next two."""
    prior_kl: float | None = None
    """KL of what the search says from the network's policy, nats."""
    depth: tuple[float, int] | None = None
    """Plies that simulations went down, mean and most."""


def plies(game: Game, record: GameRecord, game_history: GameHistory) -> Iterator[Ply]:
    """Plays the record on `game_history`; a ply comes after its move was played. ValueError if it breaks a
    rule."""
    ends = np.cumsum(record.visited, dtype=np.int64).tolist()
    begins = [0, *ends]
    for index, action in enumerate(record.actions.tolist()):
        begin, end = begins[index], ends[index]
        visits = dict(
            zip(record.visit_actions[begin:end].tolist(), record.visits[begin:end].tolist(), strict=True)
        )
        side, state, order = (
            game_history.side_to_move,
            game_history.state,
            sorted(visits, key=lambda action: (-visits[action], action)),
        )
        try:
            move = game.notation.action_to_text(state, action)
            most = tuple((game.notation.action_to_text(state, one), visits[one]) for one in order)
            game_history.play(action)
        except (ValueError, IndexError) as error:
            raise ValueError(f"ply {index}: {error}") from error
        value, played = float(record.root_values[index]), visits.get(action, 0)
        yield Ply(side, move, value, played, sum(visits.values()), most, **_search(record, index))


def _search(record: GameRecord, index: int) -> dict[str, Any]:
    """What is known beside visits and value."""
    found: dict[str, Any] = {}
    for name, column in (("prior_value", record.prior_values), ("prior_kl", record.prior_kl)):
        if not np.isnan(column[index]):
            found[name] = float(column[index])
    if not np.isnan(record.mean_depths[index]):
        found["depth"] = float(record.mean_depths[index]), int(record.max_depths[index])
    return found
