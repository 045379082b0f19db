"""Restores a run from its backup, and puts it in place only if it is proven to be intact."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from client.spool import run_folder
from commands.backup.about import FILE, About, Identity, read_about
from games import get_game
from report.games.checking import fault_of
from runtime.exits import Exit, Fatal
from runtime.finding import find_run
from runtime.reading import read_json
from runtime.runs import RunFolder
from runtime.whole_folders import SUMS, copy_file, filled, hash_file, read_sums, write_file
from store.copying import check_file
from store.reader import Range, StoreReader

PROGRESS_EVERY = 10_000
NAMED = 20
"""Bad games that are named one by one."""


def restore(
    backup: Path, run: RunFolder, identity: Identity, *, verify_games: bool, say: Callable[[str], None]
) -> About:
    """Make the run folder `run`, which must not exist, from `backup`.

    Every file is compared with its hash while it is copied. Then, with `verify_games`, every game is replayed
    under the rules, as `azplay games verify` does. `identity`: see `azplay restore --help`. Raises
    Fatal(BAD_DATA) for an incomplete or damaged backup, Fatal(CONFIG) if the run exists, or if one with the
    same identity is in the same folder; then nothing is left behind.
    """
    about = read_about(backup)
    if run.path.exists() or run.path.is_symlink():
        aside = run.path.with_name(f"{run.path.name}-old")
        raise Fatal(
            f"{run.path} exists already and is not overwritten: choose another name, or, if you no longer "
            f"need that run, move it away first ({shlex.join(['mv', str(run.path), str(aside)])})",
            Exit.CONFIG,
        )
    sums = read_sums(backup)
    if identity == "auto":
        _check_identity(about, run)
    with filled(run.path) as folder:
        for path, digest in sums.items():
            target = _target(about, run, identity, path)
            found = copy_file(backup / path, folder / target) if target else hash_file(backup / path)
            if found != digest:
                raise Fatal(
                    f"{backup / path} is damaged: it has another hash than {SUMS} says", Exit.BAD_DATA
                )
        if identity == "new":
            _forget_identity(folder / run.about.name)
        games = folder / run.games.name
        if games.exists():
            check_file(games)
            if verify_games:
                _verify(games, about, say)
    return about


def _target(about: About, run: RunFolder, identity: Identity, path: str) -> str | None:
    """Where in the run folder a file of the backup goes; None for a file that is not restored.

    A spool is named for the run. Waiting games belong to the run that they were played for: a run with a new
    identity leaves them to that one.
    """
    if path == FILE:
        return None
    parts = path.split("/")
    if parts[0] != run.spool.name:
        return path
    if identity == "new":
        return None
    run_id = bytes.fromhex(about.run_id)
    old, new = (run_folder(Path(), about.game, name, run_id).name for name in (about.run, run.name))
    return "/".join(new if part == old else part for part in parts)


def _check_identity(about: About, run: RunFolder) -> None:
    """Raise Fatal(CONFIG) if a run in the same folder has the identity that the new one would have."""
    for path in sorted(run.path.parent.glob("*/run.json")):
        try:
            beside = find_run(path.parent)
            is_same = beside is not None and bool(about.run_id) and beside.run_id.hex() == about.run_id
        except Fatal:
            continue  # it cannot be read, so no azserver serves it
        if is_same:
            raise Fatal(
                f"{path.parent} is the run that this is a backup of. If it goes on, restore with --identity "
                "new: the copy is a run of its own then. If it is given up, restore with --identity keep: "
                "games that wait for it go to the copy",
                Exit.CONFIG,
            )


def _forget_identity(about: Path) -> None:
    """Remove the identity: azserver draws a new one at its first start, and a trainer elsewhere adopts the
    server's."""
    described = read_json(about)
    described.pop("id", None)
    write_file(about, json.dumps(described, indent=1).encode())


def _verify(path: Path, about: About, say: Callable[[str], None]) -> None:
    """Raise Fatal(BAD_DATA) unless all games are there, intact, and follow the rules."""
    checked = bad = 0
    with closing(StoreReader(path)) as games:
        game = get_game(games.game)
        for stored in games.rows(Range()):
            checked += 1
            fault = fault_of(game, stored)
            if fault is not None:
                bad += 1
                if bad <= NAMED:
                    say(f"game {stored.seq}: {fault}")
            if checked % PROGRESS_EVERY == 0:
                say(f"{checked} games checked, {bad} bad")
    say(f"{checked} games checked, {bad} bad")
    if checked != about.games:
        raise Fatal(f"{path.name} has {checked} games, {FILE} says {about.games}", Exit.BAD_DATA)
    if bad:
        raise Fatal(
            f"{bad} games were damaged before the backup was made (its hashes are right); "
            "--hashes-only restores it as it is, and the trainer leaves such games out",
            Exit.BAD_DATA,
        )
