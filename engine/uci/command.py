"""`azplay uci`: the network as a chess engine for GUIs and match runners. docs/use_a_network.md."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.command import EngineConfig, serve
from runtime import config


@dataclass(frozen=True)
class UciConfig(EngineConfig):
    """Settings of `azplay uci`. The GUI can change most of them by options."""


EXAMPLES = (
    "azplay uci chess-tiny",
    "azplay uci --weights FILE --search gumbel --nodes 800   # sequential halving, 800 simulations per move",
    "azplay uci                                              # an untrained network, to try the GUI",
)
GAME = "chess"


def main() -> int:
    """Speak UCI on standard input and output until `quit`."""
    settings = config.load(
        UciConfig,
        command="azplay uci",
        examples=EXAMPLES,
        description="A chess engine that speaks UCI on standard input and output.",
    ).resolved()
    from engine.core.orders import Options
    from engine.uci.machine import UciEngine
    from games import get_game

    def engine() -> UciEngine:
        return UciEngine(get_game(GAME), settings.name, Options(settings.setup(GAME)), settings.nodes)

    return serve(engine, settings)
