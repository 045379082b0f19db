"""Rated players: networks of a run at some number of simulations, and anchors, which never change.

The anchors and their Elo are part of the game (`games.knowledge`). Their Elo was measured once
(`evaluation.rating.calibrate`) and is fixed: based on a ladder's own few games, an interval down to `random`
would be hundreds of Elo wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.rating.book import Entrant
from evaluation.rating.points import Point
from games.knowledge import knowledge_of
from games.spec import Game
from runtime.exits import Exit, Fatal
from runtime.weights_files import short_hash

ZERO = "random"
"""The player whose rating is 0."""
UNMEASURED = (ZERO, "greedy")
"""Anchors of a game for which none have been measured."""


@dataclass(frozen=True)
class Candidate:
    """A player that can play now."""

    entrant: Entrant
    spec: str
    """Spec for `evaluation.match.players.make_player`."""
    file: Path | None = None
    """Its weights file. The server may remove it at any time."""


class Gone(Exception):
    """A weights file was removed after the players were chosen: choose again."""


def network(point: Point, simulations: int, search: str = "puct") -> Candidate:
    """A network of a run at `simulations` a move of `search` (`engine.search_choice.search_name`).

    Its name is the same in every ladder of the run.
    """
    how = f"@{simulations}" if search == "puct" else f"@{simulations}/{search}"
    entrant = Entrant(
        name=f"v{point.version}-{short_hash(point.sha256)}{how}",
        label=f"v{point.version} {how}",
        simulations=simulations,
        step=point.step,
        version=point.version,
        games_before=point.games_before,
        hours=round(point.hours, 4),
        sha256=point.sha256,
        search=search,
    )
    return Candidate(entrant, f"net:{point.path}@{simulations}/{search}", point.path)


def anchor(spec: str) -> Candidate:
    """A player that never changes."""
    return Candidate(Entrant(name=spec, label=spec), spec)


def anchors_of(chosen: str, game: Game) -> list[str]:
    """Player specs from a comma-separated list, or the game's own. Raises Fatal(CONFIG) unless `random` comes
    first."""
    specs = [spec.strip() for spec in chosen.split(",") if spec.strip()]
    found = list(dict.fromkeys(specs or knowledge_of(game).anchors or UNMEASURED))
    if found[0] != ZERO:
        raise Fatal(f"--anchors must begin with {ZERO!r}, the zero of the scale", Exit.CONFIG)
    return found


def fixed_ratings(specs: list[str], game: Game) -> dict[str, float]:
    """Elo of those of `specs` that were measured; the others are rated together with the networks."""
    known = {ZERO: 0.0, **knowledge_of(game).anchors}
    return {spec: known[spec] for spec in specs if spec in known}


def names_of(candidates: Iterable[Candidate]) -> list[str]:
    return [candidate.entrant.name for candidate in candidates]


def networks_at(players: Iterable[Entrant], simulations: int, search: str = "puct") -> list[Entrant]:
    """All networks ever rated at `simulations` a move of `search`, in the order of training."""
    wanted = (simulations, search)
    chosen = [one for one in players if one.version is not None and (one.simulations, one.search) == wanted]
    return sorted(chosen, key=lambda player: (player.version or 0, player.step or 0, player.name))


def searches_of(players: Iterable[Entrant], sha256: str, search: str = "puct") -> list[Entrant]:
    """One network at all its numbers of simulations of `search`, ascending."""
    wanted = short_hash(sha256), search
    chosen = [one for one in players if (short_hash(one.sha256), one.search) == wanted]
    return sorted(chosen, key=lambda one: one.simulations)


def doublings(most: int) -> Sequence[int]:
    """1, 2, 4, ... and `most` itself."""
    return sorted({1 << power for power in range(most.bit_length()) if 1 << power <= most} | {most})
