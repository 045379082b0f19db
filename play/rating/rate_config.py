"""Settings that `azplay ladder` and `azplay scaling` share, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.exits import Exit, Fatal

ZERO = "random"
"""The player whose rating is 0."""

ANCHORS = {
    "chess": ("random", "greedy", "alphabeta:1", "alphabeta:2"),
    "connect_four": ("random", "greedy", "alphabeta:1", "alphabeta:2", "alphabeta:4", "rollouts:100"),
    "tic_tac_toe": ("random", "greedy", "alphabeta:2", "rollouts:50"),
}
"""Players that never change, weak to strong: the same marks on the scale of every run of a game."""

OTHER_ANCHORS = ("random", "greedy")


@dataclass(frozen=True)
class RateConfig:
    """How games are played and how many."""

    games: int = 80
    """Games per player, on average; 80 give intervals of about 70 Elo either way."""
    openings: int = 10
    """Openings of a pairing before the next pairing is chosen; each is played from both sides."""
    opening_plies: int = 4
    """Random plies that make an opening. The same for all games of a file."""
    seed: int = 0
    """Of the openings and of players that draw lots. The same for all games of a file."""
    anchors: str = ""
    """Fixed opponents, weak to strong, separated by commas, `random` first; empty: the game's own."""
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
        ("openings", 1, 10_000),
        ("opening_plies", 0, 100),
        ("concurrent", 0, 10_000),
    )
    for name, low, high in ranges:
        value = getattr(settings, name)
        if not low <= value <= high:
            flag = f"--{name.replace('_', '-')}"
            raise Fatal(f"{flag} is {value}, but must lie between {low} and {high}", Exit.CONFIG)


def anchors_of(settings: RateConfig, game: str) -> list[str]:
    """The fixed opponents as player specs. Raises Fatal(CONFIG) unless `random` comes first."""
    chosen = [spec.strip() for spec in settings.anchors.split(",") if spec.strip()]
    found = list(dict.fromkeys(chosen or ANCHORS.get(game, OTHER_ANCHORS)))
    if found[0] != ZERO:
        raise Fatal(f"--anchors must begin with {ZERO!r}, the zero of the scale", Exit.CONFIG)
    return found
