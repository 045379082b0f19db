"""How much of a run's time goes into compiling the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.azrun_config import RunConfig

if TYPE_CHECKING:
    from server.config import ServerConfig

SHARE = 1 / 3
"""Share of `--minutes` from which on a warning is printed at the start. On a busy machine compiling takes up
to three times as long as expected."""


def compile_seconds(server: ServerConfig) -> float:
    """Seconds that azserver will compile with these settings, as far as known on this machine; 0: nothing to
    compile."""
    from games import get_game
    from net.sparse import code_name
    from search.warm import Compiled

    game = get_game(server.game)
    compiled = Compiled(game, server.self_play.search.selection, network=code_name(game, server.net))
    return 0.0 if compiled.is_ready else compiled.expected_seconds


def warning(settings: RunConfig, seconds: float) -> list[str]:
    """A warning for the start that little time is left for games. `seconds`: from `compile_seconds`."""
    if not settings.minutes or seconds <= SHARE * 60 * settings.minutes:
        return []
    return [
        f"WARNING: --minutes {settings.minutes:g} is short: compiling the search of {settings.game} counts, "
        f"and takes about {seconds:.0f} s here, more on a busy machine. --minutes "
        f"{longer(settings.minutes, seconds)} leaves time for games and training."
    ]


def longer(minutes: float, seconds: float) -> int:
    """Suggested minutes for a run that was given `minutes`, of which `seconds` go into compiling."""
    return int(2 * minutes + 2 * seconds / 60) + 1
