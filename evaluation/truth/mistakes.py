"""Mistakes in a run's own games: in the moves they played, and in what the network learned from them.

Where moves lose known results, the outcomes are noise for the value head, and policy targets contain losing
moves. This counts how often that happens, for games that can be solved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from games.game_history import GameHistory
from games.knowledge import Known, Solution
from games.spec import Game, outcome_for_first_player
from protocol.records import GameRecord
from runtime.text_table import aligned

FIGURES = {
    "not top": "not_most_visited",
    "outcome off": "outcome_off",
    "search off": "search_off",
    "it matters": "",
    "played loses": "played_lose",
    "top loses": "most_visited_lose",
    "visits lose": "visits_lose",
}
"""Columns of the table, and the share that each shows (`it matters`: a count)."""


@dataclass
class Mistakes:
    """Sums over the searched positions of one group."""

    group: str
    positions: int = 0
    not_most_visited: int = 0
    outcome_off: float = 0.0
    search_off: float = 0.0
    matter: int = 0
    played_lose: int = 0
    most_visited_lose: int = 0
    visits_lose: float = 0.0

    def shares(self) -> dict[str, float]:
        """Means in [0, 1]. A value of +1 (won) in a lost position has an error of 1."""
        positions, matter = max(1, self.positions), max(1, self.matter)
        return {
            "not_most_visited": self.not_most_visited / positions,
            "outcome_off": self.outcome_off / positions,
            "search_off": self.search_off / positions,
            "played_lose": self.played_lose / matter,
            "most_visited_lose": self.most_visited_lose / matter,
            "visits_lose": self.visits_lose / matter,
        }


def count(game: Game, records: Iterable[GameRecord], solution: Solution) -> list[Mistakes]:
    """Mistakes by group, in the order in which a game reaches them. Plies without a search do not count.

    Raises ValueError if a record breaks the rules of the game.
    """
    found: dict[str, Mistakes] = {}
    for record in records:
        game_history = GameHistory(game, record.start, record.max_plies)
        ends = np.cumsum(record.visited, dtype=np.int64)
        for ply, action in enumerate(record.actions.tolist()):
            known = solution.known(game_history.states) if record.visited[ply] else None
            if known is not None:
                here = slice(int(ends[ply]) - int(record.visited[ply]), int(ends[ply]))
                mistakes = found.setdefault(known.group, Mistakes(known.group))
                _add(mistakes, record, ply, here, known, game_history.side_to_move)
            game_history.play(action)
    order = [*solution.groups, *found]
    return sorted(found.values(), key=lambda mistakes: order.index(mistakes.group))


def _add(mistakes: Mistakes, record: GameRecord, ply: int, here: slice, known: Known, side: int) -> None:
    """Count one position. `here`: the slice of its visits in the record; `side`: the side to move."""
    actions, visits = record.visit_actions[here], record.visits[here]
    played, most_visited = int(record.actions[ply]), int(actions[np.argmax(visits)])
    outcome = outcome_for_first_player(record.outcome, side)
    mistakes.positions += 1
    mistakes.not_most_visited += played != most_visited
    mistakes.outcome_off += abs(outcome - known.value) / 2
    mistakes.search_off += abs(float(record.root_values[ply]) - known.value) / 2
    if known.matters:
        loses = [action not in known.keeps for action in actions.tolist()]
        mistakes.matter += 1
        mistakes.played_lose += played not in known.keeps
        mistakes.most_visited_lose += most_visited not in known.keeps
        mistakes.visits_lose += float(visits[loses].sum() / visits.sum())


def to_text(found: Sequence[Mistakes]) -> str:
    """A table with one line a group."""
    rows = [["positions", "searched", *FIGURES]]
    for one in found:
        shares = one.shares()
        cells = (f"{shares[name]:.1%}" if name else str(one.matter) for name in FIGURES.values())
        rows.append([one.group, str(one.positions), *cells])
    return aligned(rows)
