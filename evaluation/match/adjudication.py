"""Adjudication: ending games early. It is off by default.

By values: a side wins when both players, each at its own moves, gave it a value of `win_value` or more for
`win_plies` plies in a row. The game is a draw when the values of both were within `draw_value` of 0 for
`draw_plies` plies, from ply `draw_from` on. A move without a value (Choice.value None) restarts the count. By
tables: a position whose result is known ends the game with that result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evaluation.match.truth_players import table_of
from games.game_history import GameHistory
from games.spec import Game, outcome_for_first_player

WON, DRAWN, TABLE = "adjudicated_win", "adjudicated_draw", "tablebase"
"""Reasons."""


@dataclass(frozen=True)
class Adjudication:
    """When a game is ended early; the default is never."""

    win_value: float = 0.95
    """Value in [0, 1]."""
    win_plies: int = 0
    """Plies in a row; 0 switches it off."""
    draw_value: float = 0.02
    draw_plies: int = 0
    """Plies in a row; 0 switches it off."""
    draw_from: int = 80
    """Ply from which on games may be adjudicated as draws."""
    known: Callable[[GameHistory], int | None] | None = None
    """Result for the side to move, None where it is unknown (`known_results`)."""


class _Row:
    """Plies in a row with a value of one kind, and whose values they were."""

    def __init__(self) -> None:
        self.plies = 0
        self.sides: set[int] = set()

    def add(self, side: int) -> None:
        self.plies += 1
        self.sides.add(side)

    def has(self, plies: int) -> bool:
        """Whether there are at least `plies` (0: never), from both sides, because one side may move many
        times in a row."""
        return 0 < plies <= self.plies and len(self.sides) == 2


class Judge:
    """Watches one game. Pure: it takes values and answers with a verdict."""

    def __init__(self, rules: Adjudication) -> None:
        self._rules = rules
        self._winning, self._level = _Row(), _Row()
        self._winner = 0

    def heard(self, value: float | None, side: int) -> None:
        """Note that `side` (0: the first player) has moved and gave its position `value`."""
        rules = self._rules
        opinion = None if value is None else outcome_for_first_player(1, side) * value
        clear = opinion is not None and abs(opinion) >= rules.win_value
        winner = (1 if opinion > 0 else -1) if clear and opinion is not None else 0
        if not clear or winner != self._winner:
            self._winning = _Row()
        if clear:
            self._winning.add(side)
        self._winner = winner
        if opinion is not None and abs(opinion) <= rules.draw_value:
            self._level.add(side)
        else:
            self._level = _Row()

    def verdict(self, game_history: GameHistory) -> tuple[int, str] | None:
        """(outcome for the first player, reason) if the game ends here."""
        rules = self._rules
        if rules.known is not None:
            value = rules.known(game_history)
            if value is not None:
                return outcome_for_first_player(value, game_history.side_to_move), TABLE
        if self._winning.has(rules.win_plies):
            return self._winner, WON
        if self._level.has(rules.draw_plies) and game_history.ply >= rules.draw_from:
            return 0, DRAWN
        return None


def known_results(game: Game) -> Callable[[GameHistory], int | None]:
    """Values for the side to move from the game's tables. Raises Fatal(CONFIG) for a game without tables."""
    probe = table_of(game, "--tables").probe

    def known(game_history: GameHistory) -> int | None:
        found = None if game_history.end_reason() else probe(game_history.state)
        return None if found is None else found.value

    return known
