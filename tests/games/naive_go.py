"""Slow, obvious twin of Go: boards are dictionaries, chains are sets, and superko is a list of all boards."""

from dataclasses import dataclass, field

Point = tuple[int, int]
"""(row, column) from the bottom left."""
Stones = dict[Point, int]
"""The player with a stone on a point: 0 Black, 1 White."""


@dataclass
class NaiveGo:
    """Tromp-Taylor rules on size x size points."""

    size: int
    komi: float = 7.5
    superko: str = "positional"
    suicide: bool = True
    boards: list[Stones] = field(default_factory=lambda: [{}])
    movers: list[int] = field(default_factory=lambda: [0])
    passes: int = 0

    @property
    def mover(self) -> int:
        return self.movers[-1]

    def points(self) -> list[Point]:
        return [(row, col) for row in range(self.size) for col in range(self.size)]

    def beside(self, point: Point) -> list[Point]:
        row, col = point
        near = [(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)]
        return [(r, c) for r, c in near if 0 <= r < self.size and 0 <= c < self.size]

    def chain(self, stones: Stones, point: Point) -> set[Point]:
        """Return all stones of one colour that are connected with the one at `point`."""
        found, todo = {point}, [point]
        while todo:
            for near in self.beside(todo.pop()):
                if near not in found and stones.get(near) == stones[point]:
                    found.add(near)
                    todo.append(near)
        return found

    def without_dead(self, stones: Stones, side: int) -> Stones:
        """Return the board without the chains of `side` that have no liberty."""
        kept, seen = dict(stones), set[Point]()
        for point, owner in stones.items():
            if owner == side and point not in seen:
                chain = self.chain(stones, point)
                seen |= chain
                if not any(near not in stones for one in chain for near in self.beside(one)):
                    kept = {one: kept[one] for one in kept if one not in chain}
        return kept

    def after(self, point: Point) -> Stones:
        """Return the board after a stone on `point`."""
        stones = self.boards[-1] | {point: self.mover}
        return self.without_dead(self.without_dead(stones, 1 - self.mover), self.mover)

    def is_legal(self, point: Point) -> bool:
        if point in self.boards[-1]:
            return False
        after = self.after(point)
        if point not in after and not self.suicide:
            return False
        old = list(zip(self.boards, self.movers, strict=True))
        return not any(
            after == board and (self.superko != "situational" or mover != self.mover)
            for board, mover in (old[-2:] if self.superko == "simple" else old)
        )

    def legal(self) -> list[int]:
        """Return the legal points in order, then the pass."""
        return [number for number, point in enumerate(self.points()) if self.is_legal(point)] + [self.size**2]

    def play(self, action: int) -> None:
        if action == self.size**2:
            board, self.passes = self.boards[-1], self.passes + 1
        else:
            board, self.passes = self.after(self.points()[action]), 0
        self.boards.append(board)
        self.movers.append(1 - self.mover)

    def score(self) -> float:
        """Return Black's points minus White's and the komi."""
        reached = [self.reached(side) for side in (0, 1)]
        return len(reached[0] - reached[1]) - len(reached[1] - reached[0]) - self.komi

    def reached(self, side: int) -> set[Point]:
        """Return the stones of a side, and the empty points that they reach over empty points."""
        stones = self.boards[-1]
        found = {point for point, owner in stones.items() if owner == side}
        while more := {near for one in found for near in self.beside(one) if near not in stones} - found:
            found |= more
        return found

    def end(self) -> tuple[str, int] | None:
        """Return (name of the reason, outcome for the first player), or None while the game goes on."""
        cap = 2 * self.size**2 if self.size > 3 else 64
        if self.passes < 2 and len(self.boards) - 1 < cap:
            return None
        outcome = (self.score() > 0) - (self.score() < 0)
        mine = outcome if self.mover == 0 else -outcome
        return {1: "more_points", -1: "fewer_points", 0: "as_many_points"}[mine], outcome

    def planes(self, history: int) -> list[list[int]]:
        """Return [2 * history][points]: own stones and the other's, newest position first, 0 before the
        start."""
        return [
            [
                int(back < len(self.boards) and self.boards[-1 - back].get(point) == player)
                for point in self.points()
            ]
            for back in range(history)
            for player in (self.mover, 1 - self.mover)
        ]

    def scalars(self) -> list[float]:
        """Return 1 if Black is to move."""
        return [1 - self.mover]
