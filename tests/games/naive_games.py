"""Slow, obvious twins of the small games: lists and loops, written from the rules and not from
`azselfplay/games/`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from naive_dots import NaiveDots
from naive_go import NaiveGo

from azselfplay.games.playouts import bits, ended, features, legal, replay, scalars
from azselfplay.games.spec import Game, outcome_for_first_player

Board = list[int | None]
"""The player with a stone on each cell, row by row from the bottom left: 0 the first, 1 the second."""


@dataclass
class NaiveStones:
    """Players place stones in turn; `run` in a row wins. With `drop` an action is a column, else a cell."""

    rows: int
    cols: int
    run: int
    drop: bool
    win_name: str
    boards: list[Board] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.boards = [[None] * (self.rows * self.cols)]

    @property
    def mover(self) -> int:
        return (len(self.boards) - 1) % 2

    def landing_cell(self, action: int) -> int | None:
        """Return the cell of a stone played as `action`; None if there is none."""
        rows = range(self.rows) if self.drop else [action // self.cols]
        for row in rows:
            cell = row * self.cols + action % self.cols
            if self.boards[-1][cell] is None:
                return cell
        return None

    def legal(self) -> list[int]:
        actions = self.cols if self.drop else self.rows * self.cols
        return [action for action in range(actions) if self.landing_cell(action) is not None]

    def play(self, action: int) -> None:
        cell = self.landing_cell(action)
        board = list(self.boards[-1])
        board[cell] = self.mover
        self.boards.append(board)

    def scalars(self) -> list[float]:
        """Return 1 if the first player is to move."""
        return [1 - self.mover]

    def has_run(self, player: int) -> bool:
        return any(
            all(self._owner(row + step * up, col + step * right) == player for step in range(self.run))
            for row in range(self.rows)
            for col in range(self.cols)
            for up, right in ((0, 1), (1, 0), (1, 1), (1, -1))
        )

    def _owner(self, row: int, col: int) -> int | None:
        inside = 0 <= row < self.rows and 0 <= col < self.cols
        return self.boards[-1][row * self.cols + col] if inside else None

    def end(self) -> tuple[str, int] | None:
        """Return (name of the reason, outcome for the first player), or None while the game goes on."""
        for player, outcome in ((0, 1), (1, -1)):
            if self.has_run(player):
                return self.win_name, outcome
        return None if self.legal() else ("board_full", 0)

    def planes(self, history: int) -> list[list[int]]:
        """Return [2 * history][cells]: own stones and the other's, newest position first, 0 before the
        start."""
        planes = []
        for back in range(history):
            board = self.boards[-1 - back] if back < len(self.boards) else []
            for player in (self.mover, 1 - self.mover):
                planes.append([int(cell == player) for cell in board] or [0] * (self.rows * self.cols))
        return planes


def naive_game(name: str) -> NaiveStones | NaiveDots:
    """Return a new game of the twin called `name`."""
    if name == "dots_and_boxes":
        return NaiveDots()
    if name == "tic_tac_toe":
        return NaiveStones(rows=3, cols=3, run=3, drop=False, win_name="line")
    return NaiveStones(rows=6, cols=7, run=4, drop=True, win_name="four")


NAIVE_NAMES = ("tic_tac_toe", "connect_four", "dots_and_boxes")
"""Go is compared in test_go_rules.py."""


def assert_goes_as_in_the_twin(
    game: Game, twin: NaiveStones | NaiveDots | NaiveGo, actions: Sequence[int], history: int
) -> None:
    """Compare at every ply legal actions, side to move, score, features bit by bit, end and outcome."""
    positions = replay(game, actions)
    for n, state in enumerate(positions, start=1):
        assert legal(game, positions, n) == twin.legal()
        assert game.rules.side_to_move(state) == twin.mover
        if game.score is not None:
            assert game.score(state) == twin.score()
        words = features(game, positions, n, history, fill=2**64 - 1)
        assert bits(game, words, history).tolist() == twin.planes(history)
        assert scalars(game, words, history).tolist() == pytest.approx(twin.scalars())
        end = game.end_reasons[reason] if (reason := ended(game, positions, n)) else None
        assert twin.end() == (end and (end.name, outcome_for_first_player(end.value, twin.mover)))
        if n <= len(actions):
            twin.play(actions[n - 1])
