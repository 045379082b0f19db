"""The command `azplay check-game`: whether a game keeps what search and training rely on.

The checks are those that the games of azselfplay itself pass (`games.conformance`). They run on a game of any
package, with every index of compiled code checked.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from protocol.settings import Positive

if TYPE_CHECKING:
    from azselfplay.games.conformance import Check, Playouts
    from azselfplay.games.spec import Game

EXAMPLES = (
    "azplay check-game avoid_three",
    "azplay check-game hex",
    "azplay check-game go_7x7",
)


@dataclass(frozen=True)
class CheckGameConfig:
    """Checks a game in random games: sizes, text, features, symmetries, ends. It knows no rules: whether the
    game is played right, only tests of your own can say."""

    game: Positional[str]
    """The game; the names are at the top of `--help`."""
    games: Positive = 12
    """Random games that it is checked in; more of them reach rarer ends."""


def main() -> int:
    """Entry point. Returns the exit status: FOUND if a check fails."""
    config = load(CheckGameConfig, command="azplay check-game", examples=EXAMPLES)
    # An index out of bounds is then an error, where it would spoil memory. Not in a process that has numba
    # already: it would read all its options anew, and forget where compiled code is cached.
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")
    from azselfplay.games import get_game
    from azselfplay.games.conformance import CHECKS, SPARSE_CHECKS, how_they_ended, random_games

    try:
        game = get_game(config.game)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    print(f"{game.name} is compiled, which takes up to a minute", file=sys.stderr, flush=True)
    try:
        playouts = tuple(random_games(game, config.games))
    # Whatever the game raises is what is to be shown.
    except Exception as error:
        print(f"FAILED  random games cannot be played\n        {_said(error)}")
        return int(Exit.FOUND)
    failed, checks = 0, CHECKS
    if game.sparse is None:
        checks = tuple(check for check in CHECKS if check not in SPARSE_CHECKS)
    for check in checks:
        fault = fault_of(check, game, playouts)
        failed += bool(fault)
        where = f"\n        {check.__name__}: {fault}" if fault else ""
        print(f"{'FAILED' if fault else 'ok':7} {' '.join((check.__doc__ or '').split())}{where}", flush=True)
    plies = sum(len(playout.actions) for playout in playouts)
    if game.sparse is None:
        print("-       It has no sparse features, so these are not checked.")
    what = f"{failed} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks passed"
    print(f"{game.name}: {what}, in {len(playouts)} random games of {plies / len(playouts):.0f} plies")
    print(how_they_ended(game, playouts))
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

    # Numba colours its messages.
    text = " ".join(re.sub(r"\x1b\[[\d;]*m", "", str(error)).split())[:1000]
    if isinstance(error, Nonconforming):
        return text
    # The innermost line of ours that calls one of the game's functions.
    lines = "\n".join(frame.line or "" for frame in traceback.extract_tb(error.__traceback__))
    called = re.findall(r"(?:rules|notation|sparse)\.(\w+\()", lines)
    return f"{called[-1] + '): ' if called else ''}{type(error).__name__}: {text}"
