"""Who is rated: the networks of a run at some number of simulations, and the anchors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from play.rating.book import Entrant
from play.rating.points import Point


@dataclass(frozen=True)
class Candidate:
    """A player that can play now."""

    entrant: Entrant
    spec: str
    """For `play.match.players.make_player`."""
    file: Path | None = None
    """Its weights, which the server may remove at any time."""


class Gone(Exception):
    """A weights file has been removed since the players were chosen: choose again."""


def network(point: Point, simulations: int) -> Candidate:
    """A network of a run at `simulations` a move. Its name is the same in every ladder of the run."""
    entrant = Entrant(
        name=f"v{point.version}-{point.sha256[:8]}@{simulations}",
        label=f"v{point.version} @{simulations}",
        simulations=simulations,
        step=point.step,
        version=point.version,
        games_before=point.games_before,
        hours=round(point.hours, 4),
        sha256=point.sha256,
    )
    return Candidate(entrant, f"net:{point.path}@{simulations}", point.path)


def anchor(spec: str) -> Candidate:
    """A player that never changes."""
    return Candidate(Entrant(name=spec, label=spec), spec)


def names_of(candidates: Iterable[Candidate]) -> list[str]:
    return [candidate.entrant.name for candidate in candidates]


def networks_at(players: Iterable[Entrant], simulations: int) -> list[Entrant]:
    """All networks ever rated at `simulations` a move, in the order of training."""
    chosen = [
        player for player in players if player.version is not None and player.simulations == simulations
    ]
    return sorted(chosen, key=lambda player: (player.version or 0, player.step or 0, player.name))


def searches_of(players: Iterable[Entrant], sha256: str) -> list[Entrant]:
    """One network at all its numbers of simulations, ascending."""
    return sorted((one for one in players if one.sha256 == sha256), key=lambda one: one.simulations)


def doublings(most: int) -> Sequence[int]:
    """1, 2, 4, ... and `most` itself."""
    return sorted({1 << power for power in range(most.bit_length()) if 1 << power <= most} | {most})
