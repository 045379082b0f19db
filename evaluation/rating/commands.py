"""`azplay ladder RUN` and `azplay scaling RUN|WEIGHTS`: their settings. `ladder` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from tyro.conf import Positional

from protocol.settings import Count, Plies, Seed, Simulations
from runtime.config import load
from runtime.exits import Exit
from runtime.finding import RUNS

LADDER_EXAMPLES = (
    "azplay ladder runs/chess-tiny                         # rate, print, draw; again: only what is missing",
    "azplay ladder runs/chess-tiny --points 20 --games 200 --simulations 400 --device cuda:0",
    "azplay ladder runs/chess-tiny --watch                 # beside the trainer, new weights as they come",
)
SCALING_EXAMPLES = (
    "azplay scaling runs/chess-tiny                        # the newest network at 1, 2, 4 ... 256",
    "azplay scaling runs/chess-tiny --simulations 1600 --games 200 --device cuda:0",
    "azplay scaling runs/chess-tiny/weights/000045-1a2b3c4d.safetensors --out /tmp/plots",
)


@dataclass(frozen=True, kw_only=True)
class RateConfig:
    """How games are played for ratings, and how many."""

    games: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    """Games of each rated player, on average; 100 give intervals of about 75 Elo either way."""
    pairing_openings: Annotated[int, Meta(ge=1, le=500)] = 10
    """Openings that a pairing plays before the next pairing is chosen; each is played from both sides."""
    search: str = ""
    """Search of networks: puct, gumbel, thompson, or with settings such as gumbel?gumbel_c_scale=0.1; empty:
    as in the run's self-play, without noise. A network with another search counts as another player."""
    openings: str = "auto"
    """auto (built-in book, then random moves), book, random:PLIES or a file. The same for all games of a
    run's ratings, as are max_plies and seed."""
    max_plies: Plies = 0
    """Length at which a game is a draw; 0: the game's own cap."""
    seed: Seed = 0
    """Seed of the openings and of players that choose at random."""
    anchors: str = ""
    """Players to compare with, weak to strong, separated by commas, `random` first; all of them are drawn.
    Empty: the game's own, of which those near the networks are drawn."""
    concurrent: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Games at once; 0: all of a pairing."""
    device: str = "cpu"
    """cpu or cuda:N."""
    threads: Count = 0
    """CPU threads of a network; 0: as many as cores."""
    out: str = ""
    """Folder of the plots; empty: plots/ in the run."""
    runs: Path = RUNS
    """Folder of all runs."""

    def check(self) -> None:
        """Raise Fatal(CONFIG) naming the first setting that is out of range."""

    def same_for_all(self) -> dict[str, str | int]:
        """The settings that games must share to be on the same scale."""
        return {"openings": self.openings, "max_plies": self.max_plies, "seed": self.seed}


@dataclass(frozen=True, kw_only=True)
class LadderConfig(RateConfig):
    """Rates networks of a run against each other and against fixed players: Elo with 95 % intervals over
    steps, games and hours. Results are kept in RUN/ratings.json; plots go to RUN/plots."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    simulations: Simulations = 100
    """Simulations per move of each network (AlphaZero's Figure 1: 1 second per move)."""
    points: Annotated[int, Meta(ge=2, le=1000)] = 12
    """How many networks of the run to rate: the first, the newest, and others spread evenly between."""
    watch: bool = False
    """Keep rating new weights as they come, until Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class ScalingConfig(RateConfig):
    """Rates one network at 1, 2, 4 ... simulations per move against itself and fixed players. The results are
    kept in scaling.json, in the run's folder or beside the weights file; plots go to plots/ there."""

    network: Positional[str]
    """A run, by its folder or its name in --runs (its newest network is taken), or a weights file."""
    simulations: Simulations = 256
    """Most simulations per move; the network is rated at 1, 2, 4, ... and this number. With 1 it plays the
    first choice of its policy."""


def ladder() -> int:
    """Entry point of `azplay ladder`."""
    settings = load(LadderConfig, command="azplay ladder", examples=LADDER_EXAMPLES)
    settings.check()
    from evaluation.rating.ladder import Ladder
    from runtime import aio

    aio.run(Ladder(settings).run)
    return int(Exit.OK)


def scaling() -> int:
    """Entry point of `azplay scaling`."""
    settings = load(ScalingConfig, command="azplay scaling", examples=SCALING_EXAMPLES)
    settings.check()
    from evaluation.rating.ladder import Scaling
    from runtime import aio

    aio.run(Scaling(settings).run)
    return int(Exit.OK)
