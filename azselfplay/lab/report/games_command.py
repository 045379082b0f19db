"""`azplay games RUN list|show|export|verify|stats|salvage|import`: the games of a run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.finding import RUNS, find_run, new_run, run_named
from protocol.settings import Count

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.play.game_files import FileGame
    from azselfplay.store.sqlite import Entry
    from protocol.records import GameRecord

EXAMPLES = (
    "azplay games chess-tiny list --newest 20",
    "azplay games chess-tiny show 17 --boards 4",
    "azplay games runs/chess-tiny export --first 100 --last 199 --out games.pgn",
    "azplay games chess-tiny export --newest 1 --variations 3 --out newest.pgn",
    "azplay games shogi-1 export --form kif --out games.kifu",
    "azplay games chess-1 import games.pgn",
    "azplay games chess-tiny salvage --out salvaged.db",
)
IMPORT_EXAMPLES = (
    "azplay games chess-1 import games.pgn",
    "azplay games runs/shogi-1 import games.kif",
    "azplay games go-1 import folder --game go_9x9          (a new run, for azrun --run go-1)",
)
GAMES_A_COMMIT = 256
MOST_SOURCE = 120
"""Most characters of a record's `source` (`protocol.messages.Name`)."""
LEFT_OUT = "left out"
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


@dataclass(frozen=True)
class ImportConfig:
    """Stores the games of a file in a run: PGN, SGF, CSA or KIF. No trainer may be working on it. A game that
    is there already is not stored again."""

    run: Positional[str]
    """Folder of a run, or its name in --runs. With --game, it may be a new one."""
    action: Positional[Literal["import"]]
    """This word."""
    file: Positional[Path]
    """A file of games, or a folder: all files below it that are named like such files of the game."""
    runs: Path = RUNS
    """Folder of all runs."""
    game: str = ""
    """The game of a new run."""


def main() -> int:
    """Entry point. Returns the exit status."""
    first, second, *_ = (*sys.argv[1:], "", "")
    if "import" in sys.argv[2:]:  # flags may come before the action
        return _import()
    # Users often give the action before the run, and "there is no run 'list'" would not explain this mistake.
    if first in ACTIONS and second and second not in ACTIONS and not second.startswith("-"):
        more = " FILE" if first == "import" else ""
        raise Fatal(f"the run comes before the action: azplay games RUN {first}{more}", Exit.USAGE)
    if second and not first.startswith("-") and not second.startswith("-") and second not in ACTIONS:
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
            stored = games.row(number)
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


# ---- Import ------------------------------------------------------------------------------------


def _import() -> int:
    """Store games of other programs and of people, for a warm start.

    They are stored as records without visits, which no player can send, separate from the games of self-play
    (`store.sqlite.IMPORTED`). Training uses them if `samples.imported_share` is above 0
    (`trainer.sampler`). A game that cannot be used is reported with its file, its number and the
    reason; all other games are stored.
    """
    config = load(ImportConfig, command="azplay games", examples=IMPORT_EXAMPLES)
    from azselfplay.play.nets import game_for
    from azselfplay.store.reader import game_of
    from azselfplay.store.sqlite import DUPLICATE, RETRY, STORED, Store

    run = find_run(config.run, config.runs)
    if run is None and config.game:
        game, folder = game_for(config.game), new_run(config.run, config.runs)
    else:
        # `run_named` raises an error that says which runs there are.
        folder = run or run_named(config.run, config.runs)
        game = game_for(game_of(folder))
        if config.game not in ("", game.name):
            raise Fatal(f"{folder.path} is a run of {game.name}, not of {config.game}", Exit.BAD_DATA)
    counts = Counter[str]()
    found = _entries(game, config.file, counts)
    entries = list(islice(found, GAMES_A_COMMIT))
    if run is None:
        # A run would be bound to the game, which may be as wrong as the file.
        if not entries:
            raise Fatal(f"{config.file} has no game that can be used: no run is made", Exit.BAD_DATA)
        try:
            # azserver makes the rest of the folder when the run begins.
            folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Fatal(f"cannot make {folder.path}: {error.strerror}", Exit.DISK) from error
    with folder.lock("trainer"), closing(Store(folder.games, game.name)) as store:
        # Games are read and stored in turns, because a folder of games may be larger than memory.
        while entries:
            counts.update(store.commit(entries))
            if counts[RETRY]:
                raise Fatal(f"the games could not be stored: {store.error}", Exit.DISK)
            entries = list(islice(found, GAMES_A_COMMIT))
        imported = store.totals.imported
    told = {"imported": STORED, "there already": DUPLICATE, LEFT_OUT: LEFT_OUT}
    print(f"{config.file}: " + ", ".join(f"{counts[status]:,} {what}" for what, status in told.items()))
    print(f"{imported:,} imported games in {folder.path}, used where samples.imported_share is above 0")
    # All usable games were imported, but a script should know about the others.
    return int(Exit.BAD_DATA if counts[LEFT_OUT] else Exit.OK)


def _entries(game: Game, path: Path, counts: Counter[str]) -> Iterator[Entry]:
    """Yield the games of a file or a folder as the store takes them. Games that cannot be used are reported
    and counted. So is a file in a folder that cannot be read at all; an unreadable single file raises
    Fatal."""
    from azselfplay.games.knowledge import knowledge_of

    files = [path]
    if path.is_dir():
        suffixes = {suffix for one in knowledge_of(game).formats for suffix in one.suffixes}
        # A folder lists its files in any order, and an import should not depend on it.
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in suffixes)
        if not files:
            names = ", ".join(sorted(suffixes)) or "such files: the game has no format"
            raise Fatal(f"the folder {path} has no files named {names}", Exit.BAD_DATA)
    for file in files:
        try:
            yield from _entries_of(game, file, counts)
        except Fatal as error:
            if file == path:
                raise
            counts[LEFT_OUT] += 1
            _say(str(error))


def _entries_of(game: Game, file: Path, counts: Counter[str]) -> Iterator[Entry]:
    """Yield the games of a file."""
    from azselfplay.play.game_files import BadGame, games_in
    from azselfplay.store.sqlite import IMPORTED, Entry
    from protocol.records import sha256, to_bytes

    for found in games_in(game, file):
        try:
            if isinstance(found, BadGame):
                raise ValueError(found.reason)
            record = record_of(game, found)
            # The uid is a hash of the whole record, so that the same game is not stored twice, however often
            # it is imported.
            record = replace(record, uid=sha256(to_bytes(record))[:16])
            data = to_bytes(record)
        # BadRecord is a ValueError.
        except ValueError as error:
            counts[LEFT_OUT] += 1
            _say(f"{file} game {found.number}: {error}")
            continue
        yield Entry(
            uid=record.uid,
            sha256=sha256(data),
            source=IMPORTED,
            plies=record.plies,
            outcome=record.outcome,
            reason=record.reason,
            version_min=0,
            version_max=0,
            data=data,
            is_old=True,
        )


def record_of(game: Game, found: FileGame) -> GameRecord:
    """Return a game of a file as a record without visits. Raises ValueError saying why the game cannot be
    trained on."""
    import numpy as np

    from azselfplay.games.spec import RECORDED
    from azselfplay.host.logs import on_one_line
    from protocol.records import GameRecord

    read, played = found.read, found.game_history
    if read.other_rules:
        raise ValueError(f"it is by other rules: {read.other_rules}")
    if not played.ply:
        raise ValueError("it has no moves")
    reason, outcome = played.end_reason(), read.outcome
    if reason is not None and outcome not in (None, played.outcome()) and read.agreed < played.ply:
        # People who remove dead stones pass earlier; under our rules these passes would give another result.
        played = played.up_to(played.ply - read.agreed)
        reason = played.end_reason()
    if reason is not None:
        outcome = played.outcome()
        if read.outcome not in (None, outcome):
            raise ValueError(
                f"its result is {read.outcome:+d}, and by the rules ({reason}) it is {outcome:+d}"
            )
    if outcome is None:
        raise ValueError("it has no result, or was cut off before it")
    said = (f"{read.tags.get('White', '?')} - {read.tags.get('Black', '?')}", read.tags.get("Date", ""))
    return GameRecord(
        uid=bytes(16),
        game=game.name,
        start=played.start,
        # The game was played without a ply cap, so the run's cap must not end it early.
        max_plies=max(game.max_plies, played.ply),
        simulations=1,
        actions=np.array(played.actions, np.uint16),
        visited=np.zeros(played.ply, np.uint16),
        root_values=np.zeros(played.ply, np.float32),
        flags=np.zeros(played.ply, np.uint8),
        versions=np.zeros(played.ply, np.uint32),
        visit_actions=np.zeros(0, np.uint16),
        visits=np.zeros(0, np.uint16),
        outcome=outcome,
        reason=reason or RECORDED,
        source=on_one_line(" ".join(filter(None, said)))[:MOST_SOURCE],
    )
