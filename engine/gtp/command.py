"""`azplay gtp`: the network as a Go engine for GUIs and match runners. docs/use_a_network.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from engine.core.command import EngineConfig, serve
from runtime import config
from runtime.exits import Exit, Fatal

EXAMPLES = (
    "azplay gtp go_9x9-small",
    "azplay gtp --weights FILE --nodes 800 --resign-percent 2   # 800 simulations; resigns when lost",
    "azplay gtp --game go_9x9                                   # an untrained network, to try the GUI",
)


@dataclass(frozen=True)
class GtpConfig(EngineConfig):
    """Settings of `azplay gtp`. GTP has no options, so these cannot be changed later."""

    game: str = ""
    """Board and rules at the start; empty: those of the weights file, else go (19x19)."""
    resign_percent: Annotated[int, Meta(ge=0, le=50)] = 0
    """The engine resigns when its chances are below this many percent; 0: never."""
    temperature: Annotated[int, Meta(ge=0, le=1000)] = 0
    """Percent; moves are drawn from visits ^ (100 / temperature); 0 plays the best."""
    overhead_ms: Annotated[int, Meta(ge=0, le=10_000)] = 100
    """Milliseconds lost between engine and GUI on each move under a clock."""


def main() -> int:
    """Speak GTP on standard input and output until `quit`."""
    settings = config.load(
        GtpConfig,
        command="azplay gtp",
        examples=EXAMPLES,
        description="A Go engine that speaks GTP 2 on standard input and output.",
    ).resolved()
    from engine.core.orders import Options
    from engine.gtp.board import GoBoard, rules_of
    from engine.gtp.commands import Desk
    from engine.gtp.machine import GtpEngine
    from engine.nets import game_of
    from games import get_game

    trained = "" if settings.weights is None else game_of(settings.weights)
    try:
        game = get_game(settings.game or trained or "go")
        desk = Desk(GoBoard(rules_of(game)), size=game.rows if trained else None)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    options = Options(
        settings.setup(game.name),
        overhead_ms=settings.overhead_ms,
        temperature=settings.temperature,
        resign_percent=settings.resign_percent,
    )
    version = settings.name.removeprefix("azselfplay ")
    return serve(lambda: GtpEngine(desk, version, options, settings.nodes), settings)
