"""Knowledge about Connect Four: a solver, labelled positions, a heuristic of windows of four, ratings of
fixed players, and the board as SVG.

The labelled positions come from games between players of mixed strength, and the solver labelled them. In
every game each side was one of four kinds of player, drawn at random: a random player; one that takes wins
and blocks them; one that searches six plies; and one that is perfect once there are 14 stones, and before
that searches six plies. A tenth of all moves was random. Each game gave at most one position per phase. No
position is used twice, not even as a mirror image, and in at most half of a phase's positions every legal
column keeps the result. (Commit 1700d898 is the last that contains the generator.)
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

import msgspec

from azselfplay.games.boards import Clicks, Spot, picture, text_at
from azselfplay.games.connect_four import CELLS, COLS, GAME, ROWS
from azselfplay.games.connect_four.solver import Solver
from azselfplay.games.knowledge import (
    BadTruth,
    Knowledge,
    Known,
    Matches,
    Row,
    Solution,
    Words,
)
from azselfplay.games.small import EMPTY, FIRST, board_rows, cells_in_line, window_heuristic
from azselfplay.games.spec import State

# ---- Labelled positions --------------------------------------------------------------------------


PHASES = {"opening": (8, 13), "middle": (14, 24), "end": (25, CELLS - 2)}
"""Stones on the board, both ends included. Before 8 stones a position takes too long to solve."""
COMMITTED = Path(__file__).parent / "data" / "connect_four.jsonl"
"""5,001 positions for tuning: from seed 1 (300 per phase), seed 2 (1,000 per phase; these were for final
judgements until 25 November 2026), and seed 4 (367 per phase)."""
FINAL = COMMITTED.with_name("connect_four_final.jsonl")
"""3,000 other positions, for final judgements only: from seed 3, 1,000 per phase."""


class Labelled(msgspec.Struct, frozen=True):
    """One labelled position: a line of the file."""

    phase: str
    moves: str
    """Columns 1-7 played from the empty board: the position with its history."""
    value: int
    """+1, 0 or -1 for the side to move."""
    legal: tuple[int, ...]
    """Columns 1-7."""
    keeps: tuple[int, ...]
    """Legal columns that keep the result."""
    matters: bool
    """Whether some legal column does not keep it."""


def read(path: Path = COMMITTED) -> list[Labelled]:
    """Return the labelled positions in a file. Raises BadTruth."""
    try:
        return msgspec.json.Decoder(Labelled).decode_lines(path.read_bytes())
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise BadTruth(
            f"{path} holds no labelled positions ({error}); reinstall azselfplay, which comes with it"
        ) from error


# ---- Pictures ------------------------------------------------------------------------------------


STEP, MARGIN, FOOT = 44, 8, 24
"""Pixels: size of a cell, margin around the board, space below it for the columns' numbers."""
DOT = 6
"""Radius of the mark on each stone of a four, pixels."""
WIDTH, HEIGHT = COLS * STEP + 2 * MARGIN, ROWS * STEP + 2 * MARGIN + FOOT
FRAME, HOLE, FIRSTS, SECONDS, LAST = "#2d5fa8", "#dfe7f2", "#e2b93b", "#c8443c", "#ffffff"


def svg(state: State, move: str) -> bytes:
    """Return the position as SVG. A rim marks the top stone of the column `move`, which led to the position,
    and dots mark the stones of a four."""
    rows = board_rows(state, ROWS, COLS)
    last = None
    if move:  # `last`: (row from the top, column) of the column's top stone
        col = int(move) - 1
        last = next(((down, col) for down, row in enumerate(rows) if row[col] != EMPTY), None)
    winning = cells_in_line(rows, 4)
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff" class="paper"/>',
        f'<rect width="{WIDTH}" height="{HEIGHT - FOOT}" rx="{MARGIN}" fill="{FRAME}"/>',
    ]
    for down, row in enumerate(rows):
        for col, seen in enumerate(row):
            colour = HOLE if seen == EMPTY else FIRSTS if seen == FIRST else SECONDS
            rim = f' stroke="{LAST}" stroke-width="4"' if (down, col) == last else ""
            place = f'cx="{MARGIN + STEP * col + STEP // 2}" cy="{MARGIN + STEP * down + STEP // 2}"'
            kind = ' class="hole"' if seen == EMPTY else ""
            parts.append(f'<circle {place} r="{STEP // 2 - 4}" fill="{colour}"{rim}{kind}/>')
            if (down, col) in winning:
                parts.append(f'<circle {place} r="{DOT}" fill="{LAST}"/>')
    for col in range(COLS):
        x = MARGIN + STEP * col + STEP // 2
        parts.append(text_at(x, HEIGHT - MARGIN, str(col + 1), 14, "#404040", ' class="ink"'))
    return picture(WIDTH, HEIGHT, parts)


CLICKS = Clicks(
    WIDTH,
    HEIGHT,
    tuple(
        Spot(f"column {col + 1}", MARGIN + STEP * col, MARGIN, STEP, HEIGHT - MARGIN) for col in range(COLS)
    ),
    lambda _state, action: (f"column {action + 1}",),
)


# ---- In the form of games.knowledge --------------------------------------------------------------


FEWEST_STONES = 10
"""With fewer stones a position takes longer to solve: seconds to minutes."""


_solving = threading.Lock()


_solver = cache(Solver)
"""One solver for all callers, because it remembers solved positions. It works for one thread at a time."""


def probe(state: State) -> Known | None:
    """Return what is known about a position; None with fewer than FEWEST_STONES stones."""
    stones = int(state[2])
    if stones < FEWEST_STONES:
        return None
    with _solving:
        value, keeps = _solver().verdict(state)
    group = next((phase for phase, (_, most) in PHASES.items() if stones <= most), "end")
    return Known(group, value, frozenset(keeps), len(GAME.legal_list(state)))


def rows_in(file: Path) -> list[Row]:
    """Return the labelled positions in a file. Raises BadTruth."""
    return [
        Known(one.phase, one.value, frozenset(column - 1 for column in one.keeps), len(one.legal)).row(
            moves=[int(column) - 1 for column in one.moves]
        )
        for one in read(file)
    ]


SOLUTION = Solution(
    covers=f"positions of {FEWEST_STONES} stones or more",
    probe=probe,
    rows=lambda _seed, _limit: rows_in(COMMITTED),
    groups=tuple(PHASES),
    final_rows=lambda: rows_in(FINAL),
    depth=10,
)

KNOWLEDGE = Knowledge(
    heuristic=window_heuristic(GAME, 4),
    anchors={
        "random": 0,
        "rollouts:2": 62,
        "rollouts:5": 109,
        "rollouts:10": 252,
        "greedy": 569,
        "alphabeta:1": 673,
        "rollouts:100": 785,
        "alphabeta:2": 1002,
        "rollouts:1000": 1046,
        "alphabeta:4": 1056,
        "alphabeta:6": 1114,
    },
    svg=svg,
    clicks=CLICKS,
    words=Words(("Yellow", "Red")),
    solution=SOLUTION,
    matches=Matches(opponents=("alphabeta:5", "rollouts:1000"), opening_plies=2),
)
