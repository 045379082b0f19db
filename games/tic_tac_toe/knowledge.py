"""What is known about tic-tac-toe: everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from games.knowledge import Check, Knowledge, Known, Row, Say, Solution
from games.spec import State
from games.tic_tac_toe import GAME, pictures
from games.tic_tac_toe.tree import key_of, solve
from games.windows import window_heuristic

GROUP = "tree"
"""The only group of positions."""


def _probe(state: State) -> Known:
    one = solve()[key_of(state)]
    return Known(GROUP, one.value, frozenset(one.keeps), len(one.children))


def _rows(_seed: int, _limit: int) -> list[Row]:
    return [
        Row(GROUP, "", one.moves, one.value, frozenset(one.keeps), len(one.children), {})
        for one in solve().values()
        if not one.is_over
    ]


def _checks(_file: Path | None, _say: Say) -> Iterator[Check]:
    tree = solve()
    yield Check("tic-tac-toe: positions", len(tree), 5478)
    yield Check("tic-tac-toe: value of the empty board", tree[0, 0].value, 0)
    yield Check("tic-tac-toe: positions that go on", sum(not one.is_over for one in tree.values()), 4520)


KNOWLEDGE = Knowledge(
    heuristic=window_heuristic(GAME, 3),
    anchors={"random": 0, "rollouts:5": 134, "greedy": 420, "rollouts:50": 489, "alphabeta:9": 571},
    svg=pictures.svg,
    clicks=pictures.CLICKS,
    solution=Solution(covers="all positions", probe=_probe, rows=_rows, checks=_checks, groups=(GROUP,)),
)
