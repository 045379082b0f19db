"""The checks of a run's folder for `azserver doctor`: facts, and what they mean. Nothing is changed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from diagnostics.doctor.service import Finding, fault, ok
from protocol.records import BadRecord
from runtime.exits import Fatal
from runtime.runs import RunFolder, is_locked
from server.weights import WeightsStore
from store.reader import Range, StoreReader

NEWEST = 50
"""Games that are read completely, to see whether the disk returns what was written."""


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run's folder."""

    path: Path
    wanted_game: str
    """The game that the settings name."""
    exists: bool = False
    """Whether the folder has any content."""
    about_error: str = ""
    """Why run.json cannot be used."""
    game: str = ""
    """The game that run.json names."""
    weights_error: str = ""
    weights: int | None = None
    """Version of the current weights; None: there are none yet."""
    weights_files: int = 0
    games_error: str = ""
    games: int | None = None
    """Number of the newest game in the store; None: there is no store yet."""
    damaged: int = 0
    """Games among the newest `NEWEST` whose bytes differ from what was written."""
    locked: bool = False
    """Whether an azserver works on the run."""


def look_at_run(folder: RunFolder, game: str) -> RunFacts:
    """Gather the facts. `game`: the game that the settings name."""
    if not folder.path.is_dir() or not any(folder.path.iterdir()):
        return RunFacts(folder.path, game)
    about_error, there = "", ""
    try:
        there = str(folder.describe()["game"])
        _ = folder.run_id
    except Fatal as error:
        about_error = str(error)
    weights_error, weights = _weights(folder, there or game)
    games_error, games, damaged = _games(folder.games)
    return RunFacts(
        path=folder.path,
        wanted_game=game,
        exists=True,
        about_error=about_error,
        game=there,
        weights_error=weights_error,
        weights=weights,
        weights_files=len(list(folder.weights.glob("*.safetensors"))),
        games_error=games_error,
        games=games,
        damaged=damaged,
        locked=is_locked(folder.path / "azserver.lock"),
    )


def _weights(folder: RunFolder, game: str) -> tuple[str, int | None]:
    """Return what is wrong with the current weights, and their version."""
    try:
        info = WeightsStore(folder.weights, game).read()
    except Fatal as error:
        return str(error), None
    return "", None if info is None else info.version


def _games(path: Path) -> tuple[str, int | None, int]:
    """Return what is wrong with the store, the number of the newest game, and how many of the newest are
    damaged."""
    if not path.exists():
        return "", None, 0
    try:
        with closing(StoreReader(path)) as reader:
            damaged = 0
            for stored in reader.rows(Range(newest=NEWEST)):
                try:
                    stored.unpacked()
                except BadRecord:
                    damaged += 1
            return "", reader.span()[1], damaged
    except Fatal as error:
        return str(error), None, 0


def run_findings(facts: RunFacts) -> list[Finding]:
    if not facts.exists:
        return [ok("run folder", f"{facts.path} is new: azserver makes it, with an untrained network")]
    if facts.about_error:
        return [
            fault("run folder", facts.about_error, "restore run.json from a backup, or choose another --run")
        ]
    if facts.game != facts.wanted_game:
        found = f"{facts.path} is of {facts.game}, not {facts.wanted_game}"
        return [fault("run folder", found, f"give --game {facts.game}, or choose another --run")]
    works = ", an azserver works on it" if facts.locked else ""
    return [
        ok("run folder", f"{facts.path}, {facts.game}{works}"),
        _weights_finding(facts),
        _games_finding(facts),
    ]


def _weights_finding(facts: RunFacts) -> Finding:
    if facts.weights_error:
        return fault("weights files", facts.weights_error, "restore weights/ from a backup")
    if facts.weights is not None:
        kept = f"{facts.weights_files} file{'' if facts.weights_files == 1 else 's'} kept"
        return ok("weights files", f"version {facts.weights} is whole, {kept}")
    if facts.weights_files or facts.games:
        return fault(
            "weights files",
            "weights/current.json is missing: azserver would begin with an untrained network again",
            "restore it from a backup, or give --weights FILE with the newest file in weights/",
        )
    return ok("weights files", "none yet")


def _games_finding(facts: RunFacts) -> Finding:
    if facts.games_error:
        todo = "restore games.db from a backup, or move it away to begin without games"
        return fault("games", facts.games_error, todo)
    if facts.damaged:
        found = f"{facts.damaged} of the newest {NEWEST} games have changed since they were written"
        return fault("games", found, "check the disk (smartctl, dmesg); azplay games RUN verify names them")
    if facts.games is None:
        return ok("games", "none here: the trainer keeps them in its own run folder")
    return ok("games", f"{facts.games:,}, the newest of them whole")
