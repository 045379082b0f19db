"""The scheme of alpha-zero-general, in turns: plain Python, one game, one position per network call.

Rewritten from its description: a recursive search over tables by position, kept for a game, on boards as
NumPy arrays seen by the side to move; the network is a torch module in float32, of the requested size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from azselfplay.games import get_game
from bench.peers.answering import Counts, Options, answer, options, versions
from net.architectures.network import build
from net.architectures.registry import named

Board = npt.NDArray[np.int8]
"""[6, 7]: 1 for the side to move, -1 for the other, row 0 at the top."""
Predict = Callable[[Board], tuple[npt.NDArray[np.float32], float]]
"""Priors [7] and the value for the side to move."""
ROWS, COLUMNS = 6, 7
C_PUCT, DRAWN_PLIES = 1.0, 15
"""The defaults of alpha-zero-general: exploration, and plies that are drawn by visits."""
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


def after(board: Board, column: int) -> Board:
    """The board after a move, seen by the other side."""
    new: Board = -board
    new[ROWS - 1 - np.count_nonzero(board[:, column]), column] = -1
    return new


def has_won(board: Board) -> bool:
    """Whether the side that has just moved has four in a row."""
    stones = np.zeros((ROWS + 3, COLUMNS + 6), bool)
    stones[:ROWS, 3 : 3 + COLUMNS] = board == -1
    for down, right in DIRECTIONS:
        lines = [
            stones[n * down : n * down + ROWS, 3 + n * right : 3 + n * right + COLUMNS] for n in range(4)
        ]
        if np.logical_and.reduce(lines).any():
            return True
    return False


@dataclass
class Position:
    """What the tables contain for an evaluated position, by column: [7] each."""

    legal: list[int]
    priors: npt.NDArray[np.float32]
    visits: list[int]
    values: list[float]


class Search:
    """Simulations of one game, which keeps its tables."""

    def __init__(self, predict: Predict) -> None:
        self._predict = predict
        self._ends: dict[bytes, float | None] = {}
        self._known: dict[bytes, Position] = {}
        self.evaluations = 0

    def visits(self, board: Board, simulations: int) -> npt.NDArray[np.float64]:
        """[7] visits after `simulations` more simulations from here."""
        for _ in range(simulations):
            self._simulate(board)
        return np.array(self._known[board.tobytes()].visits, float)

    def value_at_end(self, board: Board) -> float | None:
        """For the side to move; None while the game goes on."""
        key = board.tobytes()
        if key not in self._ends:
            self._ends[key] = -1.0 if has_won(board) else 0.0 if board[0].all() else None
        return self._ends[key]

    def _simulate(self, board: Board) -> float:
        """Add one leaf below `board`. Returns its value for the side that moved to `board`."""
        ended = self.value_at_end(board)
        if ended is not None:
            return -ended
        key = board.tobytes()
        if key not in self._known:
            return self._expand(key, board)
        here = self._known[key]
        total = math.sqrt(sum(here.visits) + 1e-8)

        def score(column: int) -> float:
            explored = C_PUCT * float(here.priors[column]) * total / (1 + here.visits[column])
            return here.values[column] + explored

        column = max(here.legal, key=score)
        value = self._simulate(after(board, column))
        here.visits[column] += 1
        here.values[column] += (value - here.values[column]) / here.visits[column]
        return -value

    def _expand(self, key: bytes, board: Board) -> float:
        priors, value = self._predict(board)
        self.evaluations += 1
        is_legal = board[0] == 0
        priors = priors * is_legal
        legal = np.flatnonzero(is_legal).tolist()
        self._known[key] = Position(legal, priors / priors.sum(), [0] * COLUMNS, [0.0] * COLUMNS)
        return -value


def network(net: str) -> Predict:
    """An untrained torch module, called for one position."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    game = get_game("connect_four")
    module = build(named(net), game, game.history).eval()
    empty = torch.zeros(1, game.planes(game.history) - 2, ROWS, COLUMNS)

    def predict(board: Board) -> tuple[npt.NDArray[np.float32], float]:
        seen = torch.from_numpy(np.stack([board == 1, board == -1])[None].astype(np.float32))
        with torch.no_grad():
            logits, wdl = module(torch.cat([seen, empty], dim=1))
            win, _, loss = torch.softmax(wdl[0], 0).tolist()
            return torch.softmax(logits[0], 0).numpy(), win - loss

    return predict


def free(board: Board) -> tuple[npt.NDArray[np.float32], float]:  # noqa: ARG001
    """A network that knows and costs nothing."""
    return np.full(COLUMNS, 1 / COLUMNS, np.float32), 0.0


class SelfPlay:
    """One game after the other."""

    def __init__(self, chosen: Options) -> None:
        self._predict = network(chosen.net) if chosen.net else free
        self._simulations = chosen.simulations
        self._rng = np.random.default_rng(0)
        self._begin()
        self.measure(0.0)

    def _begin(self) -> None:
        self._board: Board = np.zeros((ROWS, COLUMNS), np.int8)
        self._search, self._ply = Search(self._predict), 0

    def measure(self, seconds: float) -> Counts:
        began, moves, evaluations = time.perf_counter(), 0, 0
        while moves == 0 or time.perf_counter() < began + seconds:
            before = self._search.evaluations
            visits = self._search.visits(self._board, self._simulations)
            drawn = self._ply < DRAWN_PLIES
            column = int(self._rng.choice(COLUMNS, p=visits / visits.sum()) if drawn else visits.argmax())
            self._board, self._ply = after(self._board, column), self._ply + 1
            evaluations += self._search.evaluations - before
            moves += 1
            if self._search.value_at_end(self._board) is not None:
                self._begin()
        return Counts(time.perf_counter() - began, moves * self._simulations, evaluations)


def main() -> None:
    side = SelfPlay(options())
    answer({"versions": versions("torch"), "settings": "one game, one position a call"}, side.measure)


if __name__ == "__main__":
    main()
