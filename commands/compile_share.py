"""How much of the time that a run is given goes into compiling the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.azrun_config import RunConfig

if TYPE_CHECKING:
    from server.config import ServerConfig

SHARE = 1 / 3
"""Of `--minutes`: from here on the start warns. On a busy machine compiling takes up to three times as long
as was expected."""


def compile_seconds(server: ServerConfig) -> float:
    """That azserver will compile with these settings, as far as is known on this machine; 0: it need not."""
    from games import get_game
    from search.compile_times import Compiled

    compiled = Compiled(get_game(server.game), server.self_play.search.selection)
    return 0.0 if compiled.is_ready else compiled.expected_seconds


def warning(settings: RunConfig, seconds: float) -> list[str]:
    """For the start: that little of the time is left for games. `seconds`: `compile_seconds`."""
    if not settings.minutes or seconds <= SHARE * 60 * settings.minutes:
        return []
    return [
        f"WARNING: --minutes {settings.minutes:g} is short: compiling the search of {settings.game} counts, "
        f"and takes about {seconds:.0f} s here, more on a busy machine. --minutes "
        f"{longer(settings.minutes, seconds)} leaves time for games and training."
    ]


def longer(minutes: float, seconds: float) -> int:
    """Minutes for a run that was given `minutes`, with `seconds` of them for compiling."""
    return int(2 * minutes + 2 * seconds / 60) + 1
