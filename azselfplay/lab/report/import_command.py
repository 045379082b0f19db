"""`azplay games RUN import FILE`: games of other programs and of people, for a warm start.

The games are stored as records without visits, which no player can send, separate from the games of self-play
(`store.sqlite.IMPORTED`). Training uses them if `samples.imported_share` is above 0
(`trainer.training_loop`). A game that cannot be used is reported with its file, its number and the reason;
all other games are stored.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.link.finding import RUNS, find_run, run_named

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.play.game_files import FileGame
    from azselfplay.store.sqlite import Entry
    from protocol.records import GameRecord

EXAMPLES = (
    "azplay games chess-1 import games.pgn",
    "azplay games runs/shogi-1 import games.kif",
    "azplay games go-1 import folder --game go_9x9          (a new run, for azrun --run go-1)",
)
GAMES_A_COMMIT = 256
MOST_SOURCE = 120
"""Most characters of a record's `source` (`protocol.messages.Name`)."""
LEFT_OUT = "left out"


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
    config = load(ImportConfig, command="azplay games", examples=EXAMPLES)
    from azselfplay.play.nets import game_for
    from azselfplay.store.reader import game_of
    from azselfplay.store.sqlite import DUPLICATE, RETRY, STORED, Store

    run = find_run(config.run, config.runs)
    if run is None and config.game:
        game, folder = game_for(config.game), RunFolder(config.runs, config.run)
        try:
            # azserver makes the rest of the folder when the run begins.
            folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Fatal(f"cannot make {folder.path}: {error.strerror}", Exit.DISK) from error
    else:
        # `run_named` raises an error that says which runs there are.
        folder = run or run_named(config.run, config.runs)
        game = game_for(game_of(folder))
        if config.game not in ("", game.name):
            raise Fatal(f"{folder.path} is a run of {game.name}, not of {config.game}", Exit.BAD_DATA)
    counts = Counter[str]()
    found = _entries(game, config.file, counts)
    with folder.lock("trainer"), closing(Store(folder.games, game.name)) as store:
        # Games are read and stored in turns, because a folder of games may be larger than memory.
        while entries := list(islice(found, GAMES_A_COMMIT)):
            counts.update(store.commit(entries))
            if counts[RETRY]:
                raise Fatal(f"the games could not be stored: {store.trouble}", Exit.DISK)
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
            print(f"azplay games: {error}", file=sys.stderr, flush=True)


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
            print(f"azplay games: {file} game {found.number}: {error}", file=sys.stderr, flush=True)
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

    read, history = found.read, found.history
    if read.other_rules:
        raise ValueError(f"it is by other rules: {read.other_rules}")
    if not history.ply:
        raise ValueError("it has no moves")
    reason, outcome = history.end_reason(), read.outcome
    if reason is not None and outcome not in (None, history.outcome()) and read.agreed < history.ply:
        # People who remove dead stones pass earlier; under our rules these passes would give another result.
        history = history.up_to(history.ply - read.agreed)
        reason = history.end_reason()
    if reason is not None:
        outcome = history.outcome()
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
        start=history.start,
        # The game was played without a ply cap, so the run's cap must not end it.
        max_plies=max(game.max_plies, history.ply),
        simulations=1,
        actions=np.array(history.actions, np.uint16),
        visited=np.zeros(history.ply, np.uint16),
        root_values=np.zeros(history.ply, np.float32),
        flags=np.zeros(history.ply, np.uint8),
        versions=np.zeros(history.ply, np.uint32),
        visit_actions=np.zeros(0, np.uint16),
        visits=np.zeros(0, np.uint16),
        outcome=outcome,
        reason=reason or RECORDED,
        source=on_one_line(" ".join(filter(None, said)))[:MOST_SOURCE],
    )
