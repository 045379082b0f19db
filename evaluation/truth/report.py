"""The table that `azplay truth` prints, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.truth.errors import Errors, TreeResult
from runtime.exits import Exit, Fatal


@dataclass(frozen=True)
class PlayerErrors:
    """One line of figures per group for one player."""

    player: str
    """The network's name, `untrained ...` or `random moves`."""
    simulations: int | None
    """0: raw policy; None: no network."""
    groups: Sequence[Errors]
    trees: Mapping[str, TreeResult]
    """Tic-tac-toe only: "first" and "second", against all replies."""
    how: str = "puct"
    """The search (`engine.search_choice`), where there are simulations."""

    @property
    def search(self) -> str:
        if self.simulations is None:
            return "expected"
        return f"{self.simulations} simulations, {self.how}" if self.simulations else "raw policy"


def to_text(players: Sequence[PlayerErrors]) -> str:
    """Aligned columns, one line a player and group."""
    wide = max(18, *(len(player.search) for player in players))
    lines = [
        f"{'player':28} {'moves by':{wide}} {'positions':10} {'rows':>6} {'errors':>8} "
        f"{'it matters':>10} {'errors':>8} {'mate later by':>14}"
    ]
    for player in players:
        for one in player.groups:
            later = "" if one.longer is None else f"{one.longer:.2f} moves"
            lines.append(
                f"{player.player:28} {player.search:{wide}} {one.group:10} {one.rows:6} {one.errors:8.1%} "
                f"{one.matter:10} {one.errors_matter:8.1%} {later:>14}"
            )
    for player in players:
        for side, tree in player.trees.items():
            verdict = "never loses" if tree.lost == 0 else f"loses {tree.lost} of {tree.lines} games"
            lines.append(
                f"{player.player:28} {player.search:{wide}} as {side:6} player against all replies: "
                f"{verdict} (won {tree.won}, drawn {tree.drawn})"
            )
    return "\n".join(lines)


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
    """Where `--json` says. Fatal(DISK)."""
    try:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise Fatal(f"cannot write {path}: {error.strerror}", Exit.DISK) from error
