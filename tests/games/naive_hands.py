"""The slow, obvious twin of `hands`, written from its rules."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

Cell = tuple[int, int]
Piece = tuple[int, int]
"""(owner, kind), kind 1 to 9."""


@dataclass
class Position:
    board: dict[Cell, Piece] = field(default_factory=dict)
    hands: list[list[int]] = field(default_factory=lambda: [[2] * 9, [2] * 9])
    mover: int = 0
    passes: int = 0
    last: Cell | None = None


@dataclass
class NaiveHands:
    positions: list[Position] = field(default_factory=lambda: [Position()])

    @property
    def now(self) -> Position:
        return self.positions[-1]

    def legal(self) -> list[int]:
        hand = self.now.hands[self.now.mover]
        cells = [11 * row + col for row in range(6) for col in range(11) if (row, col) not in self.now.board]
        return [66 * kind + cell for kind in range(9) if hand[kind] for cell in cells] + [594]

    def play(self, action: int) -> None:
        after = copy.deepcopy(self.now)
        self.positions.append(after)
        after.mover, after.last = 1 - self.now.mover, None
        if action == 594:
            after.passes += 1
            return
        mover, kind, (row, col) = 1 - after.mover, action // 66 + 1, divmod(action % 66, 11)
        after.passes, after.last = 0, (row, col)
        after.board[row, col] = (mover, kind)
        after.hands[mover][kind - 1] -= 1
        for near in ((row, col - 1), (row, col + 1), (row - 1, col), (row + 1, col)):
            owner, lower = after.board.get(near, (mover, 0))
            if owner != mover and lower < kind:
                del after.board[near]
                after.hands[mover][lower - 1] += 1

    def score(self) -> float:
        return sum(kind if owner == 0 else -kind for owner, kind in self.now.board.values()) - 0.5

    def outcome(self) -> int | None:
        """Return the outcome, or None while the game goes on."""
        if self.now.passes < 2:
            return None
        return 1 if self.score() > 0 else -1

    def planes(self, history: int) -> list[list[float]]:
        """Return [planes][cells], as a network sees them."""
        mover = self.now.mover
        past = [*reversed(self.positions[-history:]), *[None] * max(0, history - len(self.positions))]
        cells = [divmod(cell, 11) for cell in range(66)]
        drops = [[float(one is not None and one.last == cell) for cell in cells] for one in past]
        pieces: list[list[float]] = []
        hands: list[list[float]] = []
        for one in past:
            board = [one.board.get(cell) if one else None for cell in cells]
            for owner in (mover, 1 - mover):
                pieces += [[float(piece == (owner, kind)) for piece in board] for kind in range(1, 10)]
                counts = one.hands[owner] if one else [0] * 9
                hands += [[count / 4] * 66 for count in counts]
            for owner in (mover, 1 - mover):
                pieces.append([float(piece is not None and piece[0] == owner) for piece in board])
        return [*drops, *pieces, *hands, [1.0 - mover] * 66, [self.now.passes / 2] * 66]
