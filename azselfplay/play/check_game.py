"""The command `azplay check-game`: whether a game keeps what search and training rely on.

The checks are those that the games of azselfplay itself pass (`games.conformance`). They run on a game of any
package, with every index of compiled code checked.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal

if TYPE_CHECKING:
    from azselfplay.games.conformance import Check, Playouts
    from azselfplay.games.spec import Game

EXAMPLES = (
    "azplay check-game avoid_three",
    "azplay check-game hex",
    "azplay check-game go_7x7",
)
GAMES = 12
"""Random games that a game is checked in."""


@dataclass(frozen=True)
class CheckGameConfig:
    """Checks a game in random games: sizes, text, features, symmetries, ends. It knows no rules: whether the
    game is played right, only tests of your own can say."""

    game: Positional[str]
    """The game; the names are at the top of `--help`."""


def main() -> int:
    """Entry point. Returns the exit status: FOUND if a check fails."""
    config = load(CheckGameConfig, command="azplay check-game", examples=EXAMPLES)
    # An index out of bounds is then an error, where it would spoil memory. Not in a process that has numba
    # already: it would read all its options anew, and forget where compiled code is cached.
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")
    from azselfplay.games import get_game
    from azselfplay.games.conformance import CHECKS, random_games

    try:
        game = get_game(config.game)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    print(f"{game.name} is compiled, which takes up to a minute", file=sys.stderr, flush=True)
    try:
        playouts = tuple(random_games(game, GAMES))
    # Whatever the game raises is what is to be shown.
    except Exception as error:
        print(f"FAILED  random games cannot be played\n        {_said(error)}")
        return int(Exit.FOUND)
    failed = 0
    for check in CHECKS:
        fault = fault_of(check, game, playouts)
        failed += bool(fault)
        where = f"\n        {check.__name__}: {fault}" if fault else ""
        print(f"{'FAILED' if fault else 'ok':7} {' '.join((check.__doc__ or '').split())}{where}", flush=True)
    plies = sum(len(playout.actions) for playout in playouts)
    what = f"{failed} of {len(CHECKS)} checks failed" if failed else f"all {len(CHECKS)} checks passed"
    print(f"{game.name}: {what}, in {len(playouts)} random games of {plies / len(playouts):.0f} plies")
    return int(Exit.FOUND if failed else Exit.OK)


def fault_of(check: Check, game: Game, playouts: Playouts) -> str:
    """What a check finds wrong; "" if nothing."""
    try:
        check(game, playouts)
    # As above.
    except Exception as error:
        return _said(error)
    return ""


def _said(error: Exception) -> str:
    from azselfplay.games.conformance import Nonconforming

    text = " ".join(str(error).split())[:1000]
    return text if isinstance(error, Nonconforming) else f"{type(error).__name__}: {text}"
