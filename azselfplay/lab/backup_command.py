"""`azplay backup` and `azplay restore`: their settings and messages; `lab.backups` does the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit
from azselfplay.host.processes import python_module
from azselfplay.link.finding import RUNS, new_run, run_named

BACKUP_EXAMPLES = (
    "azplay backup chess-tiny /backup/chess-tiny-monday",
    "azplay backup runs/chess-tiny /mnt/disk/chess-tiny       # the run goes on meanwhile",
    "sha256sum -c SHA256SUMS                             # in the backup: its files are as they were",
)

RESTORE_EXAMPLES = (
    "azplay restore /backup/chess-tiny-monday chess-tiny",
    "azplay restore /backup/chess-tiny-monday chess-copy --identity new    # beside the run, which goes on",
    "azplay restore /mnt/disk/chess-tiny chess-tiny --train-for gpu-box    # in place of a lost trainer",
)


@dataclass(frozen=True)
class BackupConfig:
    """Copies a run, also while it goes on. Where server and trainer have a machine each, copy on both."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    to: Positional[Path]
    """Folder to make; it must not exist. Until it is complete it is called TO.partial."""
    runs: Path = RUNS
    """Folder of all runs."""


@dataclass(frozen=True)
class RestoreConfig:
    """Restores a run from a backup, if each of its files has its hash and each of its games follows the
    rules."""

    backup: Positional[Path]
    """A folder that `azplay backup` has made."""
    run: Positional[str]
    """Name of the run in --runs, or its folder; it must not exist."""
    runs: Path = RUNS
    """Folder of all runs."""
    identity: Literal["auto", "keep", "new"] = "auto"
    """keep: it is the same run, and players hand in the games that wait for it. new: it is another run,
    beside the old one. auto: keep, but refuse if the old one is still in the same folder."""
    train_for: str = ""
    """HOST or HOST:PORT of an azserver: after restoring, train for it with the settings in the backup, in
    place of a trainer whose machine is lost. Empty: only restore."""
    hashes_only: bool = False
    """Only compare the hashes of the files; do not replay every game under the rules."""


def backup() -> int:
    """Entry point of `azplay backup`. Returns the exit status."""
    config = load(BackupConfig, command="azplay backup", examples=BACKUP_EXAMPLES)
    from azselfplay.lab.backups import make_backup

    about = make_backup(run_named(config.run, config.runs), config.to, _progress("backup"))
    print(f"{config.to}: {about}")
    return int(Exit.OK)


def restore() -> int:
    """Entry point of `azplay restore`. Returns the exit status."""
    config = load(RestoreConfig, command="azplay restore", examples=RESTORE_EXAMPLES)
    from azselfplay.lab.backups import restore as restore_run

    run = new_run(config.run, config.runs)
    say = _progress("restore")
    about = restore_run(config.backup, run, config.identity, verify_games=not config.hashes_only, say=say)
    print(f"{run.path}: {about}", flush=True)
    if config.train_for:
        # Become the trainer of this run: the process continues as `python -m trainer`.
        flags = ["--config", str(run.trainer_config)] if run.trainer_config.exists() else []
        flags += ["--server", config.train_for, "--runs", str(run.path.parent), "--run", run.name]
        os.execv(sys.executable, python_module("trainer", *flags))
    return int(Exit.OK)


def _progress(command: str) -> Callable[[str], None]:
    def say(text: str) -> None:
        print(f"azplay {command}: {text}", file=sys.stderr, flush=True)

    return say
