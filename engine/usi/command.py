"""`azplay usi`: the network as a shogi engine for GUIs and match runners. docs/use_a_network.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from engine.core.command import EngineConfig, serve
from runtime import config
from runtime.exits import Exit, Fatal

EXAMPLES = (
    "azplay usi shogi-small",
    "azplay usi --weights FILE --nodes 800 --resign-percent 2   # 800 simulations; resigns when lost",
    "azplay usi                                                 # an untrained network, to try the GUI",
)


@dataclass(frozen=True)
class UsiConfig(EngineConfig):
    """Settings of `azplay usi`. The GUI can change most of them by options."""

    game: str = "shogi"
    """shogi, or a variant of its rules."""
    resign_percent: Annotated[int, Meta(ge=0, le=50)] = 0
    """The engine resigns when its chances are below this many percent; 0: never (option ResignPercent)."""


def main() -> int:
    """Speak USI on standard input and output until `quit`."""
    settings = config.load(
        UsiConfig,
        command="azplay usi",
        examples=EXAMPLES,
        description="A shogi engine that speaks USI on standard input and output.",
    ).resolved()
    from engine.core.orders import Options
    from engine.uci.dialect import USI
    from engine.uci.machine import UciEngine
    from games import get_game

    try:
        game = get_game(settings.game)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    if game.notation.engine_protocol != USI.name:
        raise Fatal(f"{game.name} is not shogi: USI plays shogi or shogi_declaration", Exit.CONFIG)

    def engine() -> UciEngine:
        options = Options(settings.setup(settings.game), resign_percent=settings.resign_percent)
        return UciEngine(game, settings.name, options, settings.nodes, USI)

    return serve(engine, settings)
