"""`azplay play RUN`: a person against a network in the terminal, in any game. docs/use_a_network.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from engine.core.command import EngineConfig, serve
from protocol.settings import Count, Positive, Seed
from runtime import config
from runtime.exits import Exit, Fatal, require

EXAMPLES = (
    "azplay play connect_four-tiny",
    "azplay play chess-tiny --side second --nodes 800     # the network begins, 800 simulations per move",
    "azplay play --game tic_tac_toe                       # an untrained network, to try the commands",
)


@dataclass(frozen=True)
class PlayConfig(EngineConfig):
    """Settings of `azplay play`."""

    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the network."""
    threads: Count = 0
    """CPU threads of the network; 0: one per core."""
    hash: Positive = 256
    """MiB of the search tree."""
    leaves: Count = 0
    """Most positions evaluated in one batch; 0: as many as suit the device."""
    search: str = "puct"
    """puct, gumbel, thompson, or with settings such as gumbel?gumbel_c_scale=0.1."""
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    """Simulations of the network for each move."""
    seed: Seed = 0
    """Seed of the untrained network."""
    game: str = ""
    """The game of an untrained network; empty: that of the weights file, else chess."""
    side: Literal["first", "second"] = "first"
    """Which side you play."""
    start: str = ""
    """The position to begin from, in the game's notation; empty: the usual start."""


def main() -> int:
    """Play on standard input and output until `quit`."""
    settings = config.load(
        PlayConfig,
        command="azplay play",
        examples=EXAMPLES,
        description="You play against a network. Moves are written in the game's notation; `help` lists "
        "the commands.",
    ).resolved()
    from engine.nets import game_of
    from engine.play.machine import PlayEngine
    from games import get_game
    from games.names import DEFAULT_GAME

    require("train", "azplay play")
    trained = "" if settings.weights is None else game_of(settings.weights)
    try:
        game = get_game(settings.game or trained or DEFAULT_GAME)
        engine = PlayEngine(
            game,
            settings.setup(game.name),
            simulations=settings.nodes,
            person=int(settings.side == "second"),
            start=settings.start,
        )
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    return serve(lambda: engine, settings, engine.begin(settings.name.removeprefix("azselfplay ")))
