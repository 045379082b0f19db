"""`azplay match A B`: two players against each other, with Elo and its error."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.settings import Count, Plies, Positive, Seed
from runtime.config import load
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS, weights_named

if TYPE_CHECKING:
    from evaluation.match.elo import Sprt
    from evaluation.match.runner import ClockSettings
    from games.spec import Game

KINDS = (
    "net:NETWORK@N   a run or a weights file, N simulations per move (default 800), the search of its run",
    "net:NETWORK@N/S the same with another search S: puct, thompson, gumbel?gumbel_c_scale=0.1 ...",
    "policy:NETWORK  the network's policy alone: its first choice",
    "untrained@N     a tiny network with random weights, N simulations per move, puct; or untrained@N/S",
    "random          any legal move",
    "greedy          wins at once, else takes material; in games without material, avoids losing at once",
    "alphabeta:N     N plies of alpha-beta with the game's heuristic",
    "rollouts:N      Monte-Carlo tree search with N random playouts per move",
    "solver          perfect play where the game is solved, a shallow search elsewhere",
    "tablebase       perfect play in endgames that have tables, from a file of such positions",
    "blend:SPEC:P    plays P % of its moves as player SPEC does, the others at random",
    "uci:COMMAND?nodes=1000&movetime=MS&depth=D&timeout=S&Skill Level=3    any UCI engine (chess)",
    "usi:COMMAND?...  the same for USI engines (shogi)",
    "gtp:COMMAND?movetime=MS&timeout=S&level=1    any GTP engine (Go); level 1 is sent as a command",
)
"""The kinds of players, for `--help`."""
EXAMPLES = (
    "azplay match net:chess-tiny@200 alphabeta:2 --games 100 --concurrent 32",
    "azplay match net:NEW.safetensors@400 net:OLD.safetensors@400 --games 2000 --sprt 0,10 --concurrent 64",
    "azplay match 'uci:stockfish?nodes=1000&Skill Level=3' alphabeta:3 --games 20 --pgn games.pgn",
)


@dataclass(frozen=True)
class MatchConfig:
    """Settings of `azplay match`; A and B come before them."""

    game: str = ""
    """The game; the names are at the top of `--help`. Empty: that of A's or B's network, else chess."""
    games: Positive = 100
    """Games at most, rounded up to whole pairs: each opening is played twice, colours swapped."""
    concurrent: Positive = 16
    """Games at once; their positions share the network's batches (on a GPU use 64 or more). With a clock, no
    more than there are cores."""
    openings: str = "auto"
    """auto (the game's well-known openings, then random ones), start, book, random:PLIES, or a file of FEN,
    EPD or moves, or a PGN."""
    seed: Seed = 1
    """Seed of random openings and of players that choose at random."""
    max_plies: Plies = 0
    """Length at which a game is a draw; 0 takes the game's (chess 512)."""
    clock: str = ""
    """SECONDS+INCREMENT for each side, such as 10+0.1; empty: no clock. Only other programs' engines play by
    it, but any player that oversteps it loses."""
    sprt: str = ""
    """ELO0,ELO1, such as 0,10: stop as soon as one of the two is accepted at 5 % error."""
    win_plies: Count = 0
    """Adjudicate a win when both players see a value of 0.95 or more for this many plies; 0: never."""
    draw_plies: Count = 0
    """Adjudicate a draw when all values are within 0.02 for this many plies, from ply 80; 0: never."""
    tables: bool = False
    """End a game by the game's endgame tables (chess: KQK, KRK, KPK, KBNK)."""
    device: str = "cpu"
    """Device of networks: cpu, cuda, cuda:1."""
    threads: Count = 0
    """CPU threads of a network; 0: all."""
    runs: Path = RUNS
    """Folder of all runs."""
    pgn: str = ""
    """File for the games as PGN, if the game has that format, in the order they end; overwritten."""
    moves: str = ""
    """File for the games as JSON lines (any game); overwritten."""
    json: bool = False
    """Print the result as one JSON object instead of a table."""


def main() -> int:
    """Entry point of `azplay match`."""
    arguments = sys.argv[1:]
    specs: list[str] = []
    while arguments and not arguments[0].startswith("-") and len(specs) < 2:
        specs.append(arguments.pop(0))
    players = "\n".join(f"  {kind}" for kind in KINDS)
    config = load(
        MatchConfig,
        arguments,
        command="azplay match A B",
        examples=EXAMPLES,
        description=f"Play A against B. Players:\n\n{players}",
    )
    if len(specs) != 2:
        raise Fatal("say who plays: azplay match A B [settings]; --help lists players", Exit.USAGE)
    return _match(config, (specs[0], specs[1]))


def _match(config: MatchConfig, specs: tuple[str, str]) -> int:
    from evaluation.match.event import Match
    from runtime import aio

    game = _game(config, specs)
    match = Match(config, specs, game, _sprt(config.sprt), _clock(config.clock))
    aio.run(match.run)
    result = match.report()
    from evaluation.match.openings import describe
    from evaluation.match.report import as_json, table

    openings = describe(match.openings_played())
    print(json.dumps(as_json(result)) if config.json else table(result, openings, config.concurrent))
    return int(Exit.OK)


def _game(config: MatchConfig, specs: tuple[str, str]) -> Game:
    """The game of `--game`, else that of the first network, else the default."""
    from games import get_game
    from games.names import DEFAULT_GAME

    try:
        return get_game(config.game or _game_of_nets(specs, config.runs) or DEFAULT_GAME)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error


def _game_of_nets(specs: tuple[str, str], runs: Path) -> str:
    files = [spec.partition(":")[2] for spec in specs if spec.partition(":")[0] in ("net", "policy")]
    if not files:
        return ""
    from engine.nets import game_of

    return game_of(weights_named(files[0].rpartition("@")[0] or files[0], runs))


def _sprt(text: str) -> Sprt | None:
    from evaluation.match.elo import Sprt

    try:
        elo0, elo1 = (float(word) for word in text.split(",")) if text else (0.0, 0.0)
        return Sprt(elo0, elo1) if text else None
    except ValueError as error:
        raise Fatal(f"--sprt {text}: {error}; it is ELO0,ELO1 such as 0,10", Exit.CONFIG) from error


def _clock(text: str) -> ClockSettings | None:
    from evaluation.match.runner import ClockSettings

    base, _, increment = text.partition("+")
    try:
        settings = ClockSettings(float(base), float(increment or 0)) if text else None
    except ValueError as error:
        raise Fatal(f"--clock {text}: it is SECONDS+INCREMENT such as 10+0.1", Exit.CONFIG) from error
    if settings is not None and not (settings.base > 0 and settings.increment >= 0):
        raise Fatal(f"--clock {text}: the time must be more than 0", Exit.CONFIG)
    return settings
