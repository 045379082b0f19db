"""`azserver doctor`: checks whether machine and run folder are fit for azserver, and how a running one is
doing.

It gathers facts first and then judges them; it changes nothing. Modules that read games or dial are imported
where they are used, so that `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from azselfplay.diagnostics.doctor.machine import Needs, look_at, machine_findings
from azselfplay.diagnostics.doctor.service import (
    DoctorOptions,
    Finding,
    ServiceFacts,
    as_json,
    as_text,
    exit_status,
    fault,
    ok,
    service_findings,
)
from azselfplay.host import config
from azselfplay.host.exits import Fatal
from azselfplay.host.folders import compiled_code_folder
from azselfplay.host.ports import ANYWHERE, PORTS, Address
from azselfplay.host.runs import RunFolder, is_locked
from azselfplay.link.keys import keys_folder, server_keys
from protocol.messages import Welcome
from server.config import ServerConfig

EXAMPLES = (
    "azserver doctor --game chess --gpus 0,1                  # before the first start, with its flags",
    "azserver doctor --config runs/chess-small/config.toml    # a run, as it was last started",
    "azserver doctor --run my-run --game go --json            # for scripts",
)
FILES = Needs(files=1024, usual_files=16_384, folder="the run's folder")
NEWEST = 50
"""Games that are read completely, to see whether the disk returns what was written."""


@dataclass(frozen=True)
class DoctorConfig(DoctorOptions, ServerConfig):
    """Checks machine, run folder and ports for azserver, or an azserver that already runs."""


def main(argv: Sequence[str]) -> int:
    """Print the findings; the exit status is FOUND if there is a fault."""
    settings = config.load(DoctorConfig, argv, command="azserver doctor", examples=EXAMPLES).check()
    findings = examine(settings)
    print(as_json(findings) if settings.json else as_text(findings))
    return int(exit_status(findings))


def examine(settings: DoctorConfig) -> list[Finding]:
    """Return all findings."""
    from azselfplay.diagnostics.doctor.probe import probe

    folder = RunFolder(settings.runs, settings.run or f"{settings.game}-{settings.net}")
    cache = compiled_code_folder()
    machine = look_at(folder.path, cache)
    run = look_at_run(folder, settings.game)
    findings = machine_findings(
        machine,
        replace(FILES, gpus=[int(word) for word in settings.gpus.split(",") if word.strip().isdecimal()]),
    )
    findings += run_findings(run)
    host = "127.0.0.1" if settings.listen in ANYWHERE else settings.listen
    keys = keys_folder(settings.listen, settings.keys, insecure=settings.insecure)
    address = Address(host, settings.port, None if keys is None else server_keys(keys))
    # If the run is not locked, a server that answers belongs to another run, and its players must not be
    # disturbed. Nothing is measured either where compiled code cannot be kept.
    seconds = settings.seconds if run.locked and not machine.cache.error else 0.0
    facts = probe(address, seconds, folder.name, settings.game)
    return findings + (service_findings(facts) if run.locked else free_ports(facts, address))


def free_ports(facts: ServiceFacts, address: Address) -> list[Finding]:
    """Return whether the ports are free, for a run without an azserver."""
    taken = [port for port in facts.ports if not port.unreachable]
    ports = " and ".join(str(address.port + offset) for offset in range(PORTS))
    if not taken:
        return [ok("ports", f"{ports} are free: no azserver runs on them yet")]
    who = "another program"
    if isinstance(taken[0].answer, Welcome):
        who = f"the azserver of run {taken[0].answer.run}"
    places = " and ".join(port.address for port in taken)
    return [fault("ports", f"{who} listens on {places}", "stop it, or give another base port with --port")]


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
    from azselfplay.store.reader import Range, StoreReader
    from protocol.records import BadRecord
    from server.weights import WeightsStore

    about_error, there = "", ""
    try:
        there = str(folder.describe()["game"])
        # Read only for the error: a damaged identity would stop azserver.
        _ = folder.run_id
    except Fatal as error:
        about_error = str(error)
    weights_error, weights = "", None
    try:
        if info := WeightsStore(folder.weights, there or game).read():
            weights = info.version
    except Fatal as error:
        weights_error = str(error)
    games_error, games, damaged = "", None, 0
    if folder.games.exists():
        try:
            with closing(StoreReader(folder.games)) as reader:
                for stored in reader.rows(Range(newest=NEWEST)):
                    try:
                        stored.unpacked()
                    except BadRecord:
                        damaged += 1
                games = reader.span()[1]
        except Fatal as error:
            games_error = str(error)
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
    if facts.weights_error:
        weights = fault("weights files", facts.weights_error, "restore weights/ from a backup")
    elif facts.weights is not None:
        kept = f"{facts.weights_files} file{'' if facts.weights_files == 1 else 's'} kept"
        weights = ok("weights files", f"version {facts.weights} is whole, {kept}")
    # Games or files without `current.json`: something was lost, and azserver would not notice.
    elif facts.weights_files or facts.games:
        weights = fault(
            "weights files",
            "weights/current.json is missing: azserver would begin with an untrained network again",
            "restore it from a backup, or give --weights FILE with the newest file in weights/",
        )
    else:
        weights = ok("weights files", "none yet")
    if facts.games_error:
        todo = "restore games.db from a backup, or move it away to begin without games"
        games = fault("games", facts.games_error, todo)
    elif facts.damaged:
        found = f"{facts.damaged} of the newest {NEWEST} games have changed since they were written"
        todo = "check the disk (smartctl, dmesg); azplay games RUN verify names them"
        games = fault("games", found, todo)
    elif facts.games is None:
        games = ok("games", "none here: the trainer keeps them in its own run folder")
    else:
        games = ok("games", f"{facts.games:,}, the newest of them whole")
    return [ok("run folder", f"{facts.path}, {facts.game}{works}"), weights, games]
