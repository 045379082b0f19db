"""`azplay games RUN list|show|export|verify|stats|salvage`: look at the games of a run. `import_command` has
the action `import`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.finding import RUNS, run_named
from protocol.settings import Count

EXAMPLES = (
    "azplay games chess-tiny list --newest 20",
    "azplay games chess-tiny show 17 --boards 4",
    "azplay games runs/chess-tiny export --first 100 --last 199 --out games.pgn",
    "azplay games chess-tiny export --newest 1 --variations 3 --out newest.pgn",
    "azplay games shogi-1 export --form kif --out games.kifu",
    "azplay games chess-1 import games.pgn",
    "azplay games chess-tiny salvage --out salvaged.db",
)
Action = Literal["list", "show", "export", "verify", "stats", "salvage"]
ACTIONS = (*get_args(Action), "import")


@dataclass(frozen=True)
class GamesConfig:
    """Lists, shows, exports, checks, counts or saves the games that a run has stored."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    action: Positional[Action]
    """list: one line per game; show: moves, boards, values; export: as PGN or another format; verify: check
    that every game is whole and ends as recorded; stats: results by weights version; salvage: copy what
    can still be read of a damaged games.db to --out. And `import FILE`, with a --help of its own."""
    number: Positional[Count] = 0
    """Which game to show, as `list` numbers them; 0 is the newest."""
    runs: Path = RUNS
    """Folder of all runs."""
    first: Count = 0
    """Leave out games before this number."""
    last: Count = 0
    """Leave out games after this number; 0: no limit."""
    newest: Count = 0
    """Only this many of the newest games; 0: all."""
    boards: Count = 10
    """show: plies between two boards; 0: only the start and the end."""
    form: str = ""
    """export: pgn, sgf, csa, kif or text, as far as the game has them; empty: the first that it has."""
    out: Path | None = None
    """export, salvage: file to write. Not given: standard output (export)."""
    variations: Count = 0
    """export: add this many other moves of each search, the most visited ones with their visits, as
    variations in PGN and SGF, as comments in CSA and KIF."""


def main() -> int:
    """Entry point. Returns the exit status."""
    first, second, *_ = (*sys.argv[1:], "", "")
    if second == "import":
        from azselfplay.lab.report import import_command

        return import_command.main()
    # Users often give the action before the run, and "there is no run 'list'" would not explain this mistake.
    if first in ACTIONS and second and second not in ACTIONS and not second.startswith("-"):
        words = shlex.join([second, first, *sys.argv[3:]])
        raise Fatal(f"the run comes before the action: azplay games {words}", Exit.USAGE)
    if second and not second.startswith("-") and second not in ACTIONS:
        raise Fatal(f"there is no action {second!r}: give one of {', '.join(ACTIONS)}", Exit.USAGE)
    config = load(GamesConfig, command="azplay games", examples=EXAMPLES)
    if config.action == "salvage":
        return _salvage(config)
    from azselfplay.games import get_game
    from azselfplay.lab.report.stored_games import HEADER, export, listed, results_by_version, shown, verified
    from azselfplay.store.reader import Range, open_games
    from protocol.records import BadRecord

    wanted = Range(config.first, config.last, config.newest)
    with closing(open_games(config.run, config.runs)) as games:
        if config.action == "list":
            print(HEADER)
            _print(listed(row) for row in games.rows(wanted, with_data=False))
            return int(Exit.OK)
        if config.action == "show":
            # 0 is the newest.
            number = config.number or games.span()[1]
            stored = games.one(number)
            try:
                game = get_game(games.game)
                _print(shown(game, stored, stored.record(game), config.boards))
            except (BadRecord, ValueError) as error:
                raise Fatal(f"game {number} of {games.path} is damaged: {error}", Exit.BAD_DATA) from error
            return int(Exit.OK)
        if config.action == "export":
            how = config.form, config.variations
            exported, damaged = export(games, wanted, *how, config.out, _say)
            _say(f"{exported} games exported, {damaged} damaged ones left out")
            # All intact games were exported, but a script should know about the damaged ones.
            return int(Exit.BAD_DATA if damaged else Exit.OK)
        if config.action == "verify":
            checked, bad = verified(games, wanted, partial(print, flush=True), _say)
            print(f"{checked:,} games checked, {bad:,} bad")
            return int(Exit.BAD_DATA if bad else Exit.OK)
        from azselfplay.lab.report.figures import by_version
        from azselfplay.store.sqlite import IMPORTED

        _print(results_by_version(by_version(games)))
        if imported := games.count(IMPORTED):
            print(f"{imported:,} imported games are not among them")
        return int(Exit.OK)


def _salvage(config: GamesConfig) -> int:
    from azselfplay.games import get_game
    from azselfplay.store.copying import salvage
    from azselfplay.store.reader import game_of

    if config.out is None:
        raise Fatal("salvage needs --out NEW.db, the file to write", Exit.USAGE)
    run = run_named(config.run, config.runs)
    # Read the game's name from run.json, because the store may be too damaged to tell it.
    done = salvage(
        run.games,
        config.out,
        get_game(game_of(run)),
        lambda number, last, lost: _say(f"{number:,} of {last:,} games read, {lost:,} lost"),
    )
    print(f"{done.saved:,} games saved in {config.out}, {done.lost:,} lost")
    if done.unread:
        _say(
            f"could not be read whole: {', '.join(done.unread)}; look at `azplay players` before you train on"
        )
    # The exit status lets a script notice losses.
    return int(Exit.FOUND if done.lost or done.unread else Exit.OK)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _say(text: str) -> None:
    print(f"azplay games: {text}", file=sys.stderr, flush=True)
