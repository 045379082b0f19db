"""Knowledge about tic-tac-toe: the result of every position, and the board as SVG."""

from __future__ import annotations

from functools import cache

from azselfplay.games.boards import Clicks, grid, picture, text_at
from azselfplay.games.knowledge import Knowledge, Known, Row, Solution, Words
from azselfplay.games.small import EMPTY, FIRST, board_rows, cells_in_line, window_heuristic
from azselfplay.games.spec import State
from azselfplay.games.tic_tac_toe import COLS, GAME, ROWS

# ---- The tree ------------------------------------------------------------------------------------


GROUP = "tree"
"""The only group of positions."""
Key = tuple[int, int]
"""(stones of the side to move, stones of the other side)"""


@cache
def solve() -> dict[Key, Row]:
    """Return all reachable positions, including the empty board (5,478). Those in which the game is over have
    no legal action."""
    tree: dict[Key, Row] = {}

    def add(state: State, moves: tuple[int, ...]) -> int:
        """Add a position and all positions that can follow. Returns its value."""
        key = key_of(state)
        # Many orders of moves lead to the same position.
        if key in tree:
            return tree[key].value
        ended = GAME.end_value(state)
        if ended is not None:
            tree[key] = Row(GROUP, ended, frozenset(), 0, moves=moves)
            return ended
        # Sides alternate, so the value changes its sign.
        values = {
            action: -add(GAME.after(state, action), (*moves, action)) for action in GAME.legal_list(state)
        }
        best = max(values.values())
        keeps = frozenset(action for action, value in values.items() if value == best)
        tree[key] = Row(GROUP, best, keeps, len(values), moves=moves)
        return best

    add(GAME.notation.state_from_text(""), ())
    return tree


def key_of(state: State) -> Key:
    """Return the key of a state in the tree."""
    return int(state[0]), int(state[1])


# ---- Pictures ------------------------------------------------------------------------------------


STEP, ARM, WIDTH = 90, 24, 270
"""Pixels: width of a cell, from the middle of a mark to its end, width of the board."""
PAPER, LINE, NUMBER, LAST = "#fbfaf6", "#8a8577", "#6b675c", "#f3e6b8"
FIRSTS, SECONDS = "#2d5fa8", "#b5532a"


def svg(state: State, move: str) -> bytes:
    """Return the position as SVG, with the numbers of empty cells. The cell of `move`, which led to the
    position, is marked, and so are three in a row."""
    parts = [f'<rect width="{WIDTH}" height="{WIDTH}" fill="{PAPER}"/>']
    rows = board_rows(state, ROWS, COLS)
    winning = cells_in_line(rows, 3)
    for down, row in enumerate(rows):
        for col, seen in enumerate(row):
            left, top = STEP * col, STEP * down
            x, y = left + STEP // 2, top + STEP // 2
            number = str(_cell(down, col) + 1)
            if move == number or (down, col) in winning:
                place = f'x="{left}" y="{top}" width="{STEP}" height="{STEP}"'
                parts.append(f'<rect {place} fill="{LAST}"/>')
            if seen == EMPTY:
                parts.append(text_at(left + 13, top + 20, number, 15, NUMBER))
            elif seen == FIRST:
                cross = f"M{x - ARM} {y - ARM}L{x + ARM} {y + ARM}M{x - ARM} {y + ARM}L{x + ARM} {y - ARM}"
                pen = f'stroke="{FIRSTS}" stroke-width="9" stroke-linecap="round"'
                parts.append(f'<path d="{cross}" {pen}/>')
            else:
                pen = f'fill="none" stroke="{SECONDS}" stroke-width="9"'
                parts.append(f'<circle cx="{x}" cy="{y}" r="{ARM + 2}" {pen}/>')
    for at in (STEP, 2 * STEP):
        for x1, y1, x2, y2 in ((at, 6, at, WIDTH - 6), (6, at, WIDTH - 6, at)):
            parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="3"/>')
    return picture(WIDTH, WIDTH, parts)


def _cell(down: int, col: int) -> int:
    """Return the number of a cell, counted from the bottom left."""
    return (ROWS - 1 - down) * COLS + col


_NAMES = [[f"cell {_cell(down, col) + 1}" for col in range(COLS)] for down in range(ROWS)]
CLICKS = Clicks(WIDTH, WIDTH, grid(_NAMES, 0, 0, STEP), lambda _state, action: (f"cell {action + 1}",))


# ---- In the form of games.knowledge --------------------------------------------------------------


def probe(state: State) -> Known:
    return solve()[key_of(state)]


def rows(_seed: int, _limit: int) -> list[Row]:
    return [one for one in solve().values() if one.legal]


KNOWLEDGE = Knowledge(
    heuristic=window_heuristic(GAME, 3),
    anchors={"random": 0, "rollouts:5": 134, "greedy": 420, "rollouts:50": 489, "alphabeta:9": 571},
    svg=svg,
    clicks=CLICKS,
    words=Words(("X", "O")),
    solution=Solution(covers="all positions", probe=probe, rows=rows, groups=(GROUP,)),
)
