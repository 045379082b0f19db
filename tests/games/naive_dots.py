"""Slow, obvious twin of dots-and-boxes: edges are pairs of dots, boxes have owners in a dictionary."""

from dataclasses import dataclass, field
from functools import cache

Dot = tuple[int, int]
"""(row, column) from the bottom left."""
Edge = tuple[Dot, Dot]


@dataclass
class NaiveDots:
    """The player who closes a box owns it and moves again; more boxes win."""

    rows: int = 3
    cols: int = 3
    drawn: list[list[Edge]] = field(default_factory=lambda: [[]])
    """The edges drawn, for each position."""
    owners: list[dict[Dot, int]] = field(default_factory=lambda: [{}])
    """For each position: the player who owns a box, by the box's lower left dot."""
    mover: int = 0

    def edges(self) -> list[Edge]:
        """Return the edges in the order of actions: horizontal ones row by row from below, then vertical
        ones."""
        flat = [((r, c), (r, c + 1)) for r in range(self.rows + 1) for c in range(self.cols)]
        return flat + [((r, c), (r + 1, c)) for r in range(self.rows) for c in range(self.cols + 1)]

    def boxes(self) -> list[Dot]:
        return [(r, c) for r in range(self.rows) for c in range(self.cols)]

    @staticmethod
    def sides(box: Dot) -> list[Edge]:
        """Return the sides of a box: below, right, above, left."""
        r, c = box
        low_left, low_right, high_left, high_right = (r, c), (r, c + 1), (r + 1, c), (r + 1, c + 1)
        low, high = (low_left, low_right), (high_left, high_right)
        return [low, (low_right, high_right), high, (low_left, high_left)]

    def legal(self) -> list[int]:
        return [number for number, edge in enumerate(self.edges()) if edge not in self.drawn[-1]]

    def play(self, action: int) -> None:
        drawn = [*self.drawn[-1], self.edges()[action]]
        closed = {box for box in self.boxes() if all(side in drawn for side in self.sides(box))}
        new = closed - self.owners[-1].keys()
        self.owners.append(self.owners[-1] | dict.fromkeys(new, self.mover))
        self.drawn.append(drawn)
        self.mover = self.mover if new else 1 - self.mover

    def lead(self, player: int) -> int:
        owners = list(self.owners[-1].values())
        return owners.count(player) - owners.count(1 - player)

    def end(self) -> tuple[str, int] | None:
        """Return (name of the reason, outcome for the first player), or None while the game goes on."""
        if self.legal():
            return None
        mine, first = self.lead(self.mover), self.score()
        name = "as_many_boxes" if mine == 0 else "more_boxes" if mine > 0 else "fewer_boxes"
        return name, (first > 0) - (first < 0)

    def score(self) -> int:
        return self.lead(0)

    def planes(self, history: int) -> list[list[int]]:
        """Return [6 * history][boxes]: edges below, right, above, left; own boxes, the other's; newest
        first."""
        planes = []
        for back in range(history):
            there = back < len(self.drawn)
            drawn, owners = (self.drawn[-1 - back], self.owners[-1 - back]) if there else ([], {})
            planes += [[int(self.sides(box)[side] in drawn) for box in self.boxes()] for side in range(4)]
            for player in (self.mover, 1 - self.mover):
                planes.append([int(owners.get(box) == player) for box in self.boxes()])
        return planes

    def scalars(self) -> list[float]:
        count = self.rows * self.cols
        return [1 - self.mover, (self.lead(self.mover) + count) / (2 * count)]


@cache
def gain(rows: int, cols: int, drawn: frozenset[Edge]) -> int:
    """Return how many more boxes than the other side the side to move still gets with best play."""
    board = NaiveDots(rows, cols)
    best = None
    for edge in board.edges():
        if edge not in drawn:
            after = drawn | {edge}
            sides = map(board.sides, board.boxes())
            closed = sum(edge in each and after.issuperset(each) for each in sides)
            value = closed + gain(rows, cols, after) if closed else -gain(rows, cols, after)
            best = value if best is None else max(best, value)
    return best or 0
