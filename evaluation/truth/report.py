"""The table that `azplay truth` prints, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.truth.errors import Errors, TreeResult
from runtime.exits import Exit, Fatal
from runtime.text_table import aligned

HEADINGS = (
    *("player", "moves by", "positions", "rows", "errors", "it matters", "errors there", "mate later by"),
)
LEGEND = (
    "An error throws the known result away. it matters: positions in which some legal move is an error; "
    "errors there: the share of those in which the player errs."
)
"""What the columns mean, below the table."""


@dataclass(frozen=True)
class PlayerErrors:
    """The errors of one player, by group."""

    player: str
    """The network's name, `untrained ...` or `random moves`."""
    simulations: int | None
    """0: raw policy; None: no network."""
    groups: Sequence[Errors]
    trees: Mapping[str, TreeResult]
    """Tic-tac-toe only: "first" and "second", against all replies."""
    how: str = "puct"
    """The search (`engine.search_choice`); unused without simulations."""

    @property
    def search(self) -> str:
        if self.simulations is None:
            return "expected"
        return f"{self.simulations} simulations, {self.how}" if self.simulations else "raw policy"


def to_text(players: Sequence[PlayerErrors]) -> str:
    """A table with one line a player and group."""
    rows: list[Sequence[str]] = [HEADINGS]
    lines = []
    for player in players:
        for one in player.groups:
            figures = [str(one.rows), f"{one.errors:.1%}", str(one.matter), f"{one.errors_matter:.1%}"]
            later = "" if one.longer is None else f"{one.longer:.2f} moves"
            rows.append([player.player, player.search, one.group, *figures, later])
        for side, tree in player.trees.items():
            verdict = "never loses" if tree.lost == 0 else f"loses {tree.lost} of {tree.lines} games"
            lines.append(
                f"{player.player}, {player.search}, as {side} player against all replies: {verdict} "
                f"(won {tree.won}, drawn {tree.drawn})"
            )
    return "\n".join([aligned(_without_empty_columns(rows), left=3), *lines, LEGEND])


def _without_empty_columns(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Remove columns that are empty for all rows, such as mates, which only chess endgames have. The first
    row, of headings, does not count."""
    filled = [place for place in range(len(rows[0])) if any(row[place] for row in rows[1:])]
    return [[row[place] for place in filled] for row in rows]


def to_json(game: str, players: Sequence[PlayerErrors]) -> dict[str, Any]:
    """Shares are between 0 and 1, `longer` in moves."""
    return {
        "game": game,
        "players": [
            {
                "player": player.player,
                "simulations": player.simulations,
                "search": player.how if player.simulations else "",
                "groups": {one.group: asdict(one) for one in player.groups},
                "trees": {side: asdict(tree) for side, tree in player.trees.items()},
            }
            for player in players
        ],
    }


def write_json(path: Path, figures: Mapping[str, Any]) -> None:
    """Write the file of `--json`. Raises Fatal(DISK)."""
    try:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise Fatal(f"cannot write {path}: {error.strerror}", Exit.DISK) from error
