"""Settings that `azplay ladder` and `azplay scaling` share, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.exits import Exit, Fatal


@dataclass(frozen=True)
class RateConfig:
    """How games are played and how many."""

    games: int = 100
    """Games of each player that is rated, on average; 100 give intervals of about 75 Elo either way."""
    pairing_openings: int = 10
    """Openings of a pairing before the next pairing is chosen; each is played from both sides."""
    search: str = ""
    """Of networks: puct, gumbel, thompson, or with settings such as gumbel?gumbel_c_scale=0.1; empty: as in
    the run's self-play. Never with noise. Each search of a network is a player of its own."""
    openings: str = "auto"
    """auto (built-in book, then random lines), book, random:PLIES or a file. The same for all games of a
    run's ratings, as are max_plies and seed."""
    max_plies: int = 0
    """Length at which a game is a draw; 0: the game's own cap."""
    seed: int = 0
    """Of the openings and of players that draw lots."""
    anchors: str = ""
    """Players to compare with, weak to strong, separated by commas, `random` first; empty: the game's own."""
    concurrent: int = 0
    """Games at once; 0: all of a pairing."""
    device: str = "cpu"
    """cpu or cuda:N."""
    threads: int = 0
    """CPU threads of a network; 0: as many as cores."""
    out: str = ""
    """Folder of the plots; empty: plots/ in the run."""


def check(settings: RateConfig) -> None:
    """Fatal(CONFIG) naming the first setting that is out of range."""
    ranges = (
        ("games", 1, 1_000_000),
        ("pairing_openings", 1, 500),
        ("max_plies", 0, 10_000),
        ("seed", 0, 1 << 62),
        ("concurrent", 0, 10_000),
    )
    for name, low, high in ranges:
        value = getattr(settings, name)
        if not low <= value <= high:
            flag = f"--{name.replace('_', '-')}"
            raise Fatal(f"{flag} is {value}, but must lie between {low} and {high}", Exit.CONFIG)


def same_for_all(settings: RateConfig) -> dict[str, str | int]:
    """What games must have in common to be on one scale."""
    return {"openings": settings.openings, "max_plies": settings.max_plies, "seed": settings.seed}
