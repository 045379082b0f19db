"""`azserver quarantine NAME` and `azserver release NAME`: whether the games of a key are trained on.

The quarantine is part of the trainer's `games.db`. It is on azserver's machine where azserver and the trainer
share the run's folder, as under azrun. Otherwise use `azplay players` on the trainer's machine.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from games.names import near_or_all
from runtime.exits import Exit, Fatal
from runtime.finding import run_named, served_runs
from runtime.runs import RunFolder
from server.allowed import read_allowed
from store.players import of_key, set_quarantine
from store.reader import StoreReader


def hold(name: str, allowed: Path, run: str, runs: Path, *, held: bool) -> None:
    """Put the games of the key `name` into quarantine, or release them, and print the result.

    allowed: the list of allowed keys, which must name the key if it has not played yet. run, runs: folder or
    name of the run, and the folder of all runs; "" for the one served here.
    """
    folder = run_named(run, runs) if run else _served()
    player = of_key(name)
    with closing(_games(folder, player, held=held)) as games:
        count = len(games.games_of(player, games.span()[1]))
        known = count or not held or player in games.quarantined()
    if not known:
        _check_allowed(name, allowed)
    changed = set_quarantine(folder.games, player, held=held)
    what = "in quarantine" if held else "released"
    print(f"{player}: {what}{'' if changed else ' already'}, {count} games so far in {folder.name}")


def _served() -> RunFolder:
    served = served_runs()
    if len(served) == 1:
        return served[0]
    found = ", ".join(str(folder.path) for folder in served)
    why = f"several azservers run here ({found})" if served else "no azserver of yours runs here"
    raise Fatal(f"{why}: name a run with --run", Exit.USAGE)


def _games(folder: RunFolder, player: str, *, held: bool) -> StoreReader:
    if folder.games.is_file():
        return StoreReader(folder.games)
    word = "quarantine" if held else "release"
    raise Fatal(
        f"{folder.path} has no games: the trainer keeps them elsewhere. On its machine: "
        f"azplay players {folder.name} --{word} {player}",
        Exit.BAD_DATA,
    )


def _check_allowed(name: str, path: Path) -> None:
    """Raise Fatal(CONFIG) for a name that no key has, because a quarantine of it would have no effect."""
    keys = list(read_allowed(path)) if path.is_file() else []
    if name not in keys:
        hint = near_or_all(name, keys, "allowed key") if keys else "no key is allowed"
        raise Fatal(f"no game came with a key of {name!r}, and {hint}", Exit.CONFIG)
