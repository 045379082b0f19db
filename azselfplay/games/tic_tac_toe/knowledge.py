"""What is known about tic-tac-toe: everything, because the tree of all positions is small; and its board as
SVG.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from azselfplay.games.knowledge import Check, Clicks, Knowledge, Known, Row, Say, Solution, grid
from azselfplay.games.small import EMPTY, FIRST, board_rows, cells_in_line, window_heuristic
from azselfplay.games.spec import NO_ROOT, State
from azselfplay.games.tic_tac_toe import CELLS, COLS, GAME, ROWS

# ---- The tree ------------------------------------------------------------------------------------


Key = tuple[int, int]
"""Stones of the side to move and of the other."""


@dataclass(frozen=True)
class Solved:
    """One position of the tree."""

    value: int
    """+1, 0 or -1 for the side to move, with best play."""
    moves: tuple[int, ...]
    """One way to get here from the empty board."""
    children: dict[int, Key]
    """Position after each legal action; none if the game is over."""
    keeps: tuple[int, ...]
    """Actions that keep the value."""

    @property
    def is_over(self) -> bool:
        return not self.children


@cache
def solve() -> dict[Key, Solved]:
    """All reachable positions, including the empty board (5,478)."""
    tree: dict[Key, Solved] = {}
    start = np.zeros(GAME.state_words, np.uint64)
    GAME.rules.start(start)
    _solve(start, (), tree)
    return tree


def key_of(state: State) -> Key:
    """The key of a state in the tree."""
    return int(state[0]), int(state[1])


def _solve(state: State, moves: tuple[int, ...], tree: dict[Key, Solved]) -> int:
    key = key_of(state)
    if key not in tree:
        positions, legal = state.reshape(1, -1), np.zeros(CELLS, np.uint16)
        count = GAME.rules.legal_actions(positions, 1, legal)
        reason = GAME.rules.end_reason(positions, 1, count, NO_ROOT)
        if reason:
            tree[key] = Solved(GAME.end_reasons[reason].value, moves, {}, ())
        else:
            tree[key] = _best_of(state, moves, [int(action) for action in legal[:count]], tree)
    return tree[key].value


def _best_of(state: State, moves: tuple[int, ...], legal: list[int], tree: dict[Key, Solved]) -> Solved:
    children, values = {}, {}
    for action in legal:
        child = np.zeros_like(state)
        GAME.rules.play(state, action, child)
        values[action] = -_solve(child, (*moves, action), tree)
        children[action] = key_of(child)
    best = max(values.values())
    return Solved(best, moves, children, tuple(action for action in legal if values[action] == best))


# ---- Pictures ------------------------------------------------------------------------------------


STEP, ARM, WIDTH = 90, 24, 270
"""Pixels: of a cell, from the middle of a mark to its end, of the board."""
PAPER, LINE, NUMBER, LAST = "#fbfaf6", "#8a8577", "#6b675c", "#f3e6b8"
FIRSTS, SECONDS = "#2d5fa8", "#b5532a"


def svg(state: State, move: str) -> bytes:
    """The position with the numbers of empty cells. The cell of `move`, which led to it, is marked, and so
    are three in a row."""
    parts = [f'<rect width="{WIDTH}" height="{WIDTH}" fill="{PAPER}"/>']
    rows = board_rows(state, ROWS, COLS)
    winning = cells_in_line(rows, 3)
    for down, row in enumerate(rows):
        for col, seen in enumerate(row):
            if move == str(_cell(down, col) + 1) or (down, col) in winning:
                place = f'x="{STEP * col}" y="{STEP * down}" width="{STEP}" height="{STEP}"'
                parts.append(f'<rect {place} fill="{LAST}"/>')
            if seen == EMPTY:
                parts.append(_number(down, col))
            else:
                parts.append(_mark(seen, STEP * col + STEP // 2, STEP * down + STEP // 2))
    for at in (STEP, 2 * STEP):
        for x1, y1, x2, y2 in ((at, 6, at, WIDTH - 6), (6, at, WIDTH - 6, at)):
            parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="3"/>')
    size = f'width="{WIDTH}" height="{WIDTH}" viewBox="0 0 {WIDTH} {WIDTH}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'.encode()


def _mark(side: str, x: int, y: int) -> str:
    if side == FIRST:
        strokes = f"M{x - ARM} {y - ARM}L{x + ARM} {y + ARM}M{x - ARM} {y + ARM}L{x + ARM} {y - ARM}"
        return f'<path d="{strokes}" stroke="{FIRSTS}" stroke-width="9" stroke-linecap="round"/>'
    return f'<circle cx="{x}" cy="{y}" r="{ARM + 2}" fill="none" stroke="{SECONDS}" stroke-width="9"/>'


def _number(down: int, col: int) -> str:
    """The cell's number in its upper left corner."""
    font = f'font-family="sans-serif" font-size="15" fill="{NUMBER}"'
    return f'<text x="{STEP * col + 9}" y="{STEP * down + 20}" {font}>{_cell(down, col) + 1}</text>'


def _cell(down: int, col: int) -> int:
    """Cells are numbered from the bottom left."""
    return (ROWS - 1 - down) * COLS + col


_NAMES = [[f"cell {_cell(down, col) + 1}" for col in range(COLS)] for down in range(ROWS)]
CLICKS = Clicks(WIDTH, WIDTH, grid(_NAMES, 0, 0, STEP), lambda _state, action: (f"cell {action + 1}",))


# ---- In the form of games.knowledge --------------------------------------------------------------


GROUP = "tree"
"""The only group of positions."""


def probe(state: State) -> Known:
    one = solve()[key_of(state)]
    return Known(GROUP, one.value, frozenset(one.keeps), len(one.children))


def rows(_seed: int, _limit: int) -> list[Row]:
    return [
        Row(GROUP, "", one.moves, one.value, frozenset(one.keeps), len(one.children), {})
        for one in solve().values()
        if not one.is_over
    ]


def checks(_file: Path | None, _say: Say) -> Iterator[Check]:
    tree = solve()
    yield Check("tic-tac-toe: positions", len(tree), 5478)
    yield Check("tic-tac-toe: value of the empty board", tree[0, 0].value, 0)
    yield Check("tic-tac-toe: positions that go on", sum(not one.is_over for one in tree.values()), 4520)


KNOWLEDGE = Knowledge(
    heuristic=window_heuristic(GAME, 3),
    anchors={"random": 0, "rollouts:5": 134, "greedy": 420, "rollouts:50": 489, "alphabeta:9": 571},
    svg=svg,
    clicks=CLICKS,
    solution=Solution(covers="all positions", probe=probe, rows=rows, checks=checks, groups=(GROUP,)),
)
