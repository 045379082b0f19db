"""The command `azplay check-game`: checks whether a game meets the assumptions of search and training.

azselfplay's own games pass the same checks (`games.conformance`). The checks also run on a game from another
package. Compiled code checks every array index meanwhile. The last check plays a game as a worker does.
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

EXAMPLES = ("azplay check-game avoid_three", "azplay check-game hex", "azplay check-game go_7x7")


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
    # With this variable, an index out of bounds raises an error instead of corrupting memory. Do not set it
    # if numba is already imported: numba would read all its options again and forget where compiled code is
    # cached.
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")
    from azselfplay.games import get_game
    from azselfplay.games.conformance import CHECKS, SPARSE_CHECKS, how_they_ended
    from azselfplay.games.playouts import random_games

    try:
        game = get_game(config.game)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    print(f"{game.name} is compiled, which takes up to two minutes", file=sys.stderr, flush=True)
    try:
        playouts = tuple(random_games(game, config.games))
    # Any exception that the game raises is the result to show.
    except Exception as error:
        print(f"FAILED  random games cannot be played\n        {_error_text(error)}")
        return int(Exit.FOUND)
    failed = 0
    left_out = SPARSE_CHECKS if game.sparse is None else ()
    checks = (*(check for check in CHECKS if check not in left_out), self_play_is_accepted)
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


def self_play_is_accepted(game: Game, playouts: Playouts) -> None:  # noqa: ARG001
    """Search and trainer can compile the rules, and the trainer accepts a game of self-play, also a long
    one."""
    import asyncio

    import numpy as np

    from azselfplay.games.playouts import must
    from azselfplay.search.evaluator import UniformEvaluator
    from azselfplay.search.forest import Forest
    from azselfplay.search.pool import SearchPool
    from azselfplay.search.settings import resolve
    from client.self_play import play_game
    from protocol.messages import MAX_RECORD
    from protocol.records import SHARES
    from protocol.settings import SearchSettings, SelfPlaySettings
    from trainer.verify import Verifier

    settings = resolve(SelfPlaySettings(search=SearchSettings(simulations=4)), game)
    # A ply takes 20 bytes, and 4 for each visited action: usually all that are legal, in a long search.
    size = int(settings.max_plies * (20 + 4 * min(game.mean_legal, SHARES)))
    what = "{} plies of {:.0f} visited actions take {} bytes, and a record has {}: make max_plies smaller"
    must(size <= MAX_RECORD, what, settings.max_plies, game.mean_legal, size, MAX_RECORD)
    pool = SearchPool(Forest(game, settings), UniformEvaluator())
    record = asyncio.run(play_game(pool, np.random.default_rng(0)))
    fault = Verifier(game, settings).check(record, 0)
    must(fault is None, "{}", fault)


def fault_of(check: Check, game: Game, playouts: Playouts) -> str:
    """Return the fault that a check finds; "" if there is none."""
    try:
        check(game, playouts)
    # Any exception that the game raises is the result to show.
    except Exception as error:
        return _error_text(error)
    return ""


def _error_text(error: Exception) -> str:
    from azselfplay.games.playouts import Nonconforming

    # Numba's messages contain colour codes; remove them.
    text = " ".join(re.sub(r"\x1b\[[\d;]*m", "", str(error)).split())[:1000]
    if isinstance(error, Nonconforming):
        return text
    # Find the innermost line of our code that calls one of the game's functions.
    lines = "\n".join(frame.line or "" for frame in traceback.extract_tb(error.__traceback__))
    called = re.findall(r"(?:rules|notation|sparse)\.(\w+\()", lines)
    return f"{called[-1] + '): ' if called else ''}{type(error).__name__}: {text}"
