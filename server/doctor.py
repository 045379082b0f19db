"""`azserver doctor`: checks whether machine and run folder are fit for azserver, and how a running one is
doing.

It changes nothing. Modules that read games or dial are imported where they are used, so that `--help` is
quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from azselfplay.diagnostics.doctor.findings import DoctorOptions, Finding, fault, ok, printed
from azselfplay.diagnostics.doctor.machine import Needs, look_at, machine_findings
from azselfplay.diagnostics.doctor.service import ServiceFacts, service_findings
from azselfplay.host import config
from azselfplay.host.exits import Exit, Fatal
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
    return printed(examine(settings), json=settings.json)


def examine(settings: DoctorConfig) -> list[Finding]:
    """Return all findings."""
    from azselfplay.diagnostics.doctor.probe import probe

    folder = RunFolder(settings.runs, settings.run or f"{settings.game}-{settings.net}")
    gpus = [int(word) for word in settings.gpus.split(",") if word.strip().isdecimal()]
    machine = look_at(folder.path, compiled_code_folder(), asks_torch=bool(gpus))
    locked = is_locked(folder.lock_of("azserver"))
    findings = machine_findings(machine, replace(FILES, gpus=gpus))
    findings += run_findings(folder, settings.game, locked=locked)
    host = "127.0.0.1" if settings.listen in ANYWHERE else settings.listen
    keys = keys_folder(settings.listen, settings.keys, insecure=settings.insecure)
    address = Address(host, settings.port, None if keys is None else server_keys(keys))
    # If the run is not locked, a server that answers belongs to another run.
    facts = probe(address, folder.name, settings.game)
    return findings + (service_findings(facts) if locked else free_ports(facts, address))


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


def run_findings(folder: RunFolder, wanted: str, *, locked: bool) -> list[Finding]:
    """Return findings about a run's folder. `wanted`: the game that the settings name. `locked`: an azserver
    works on the run."""
    try:
        is_new = not folder.path.is_dir() or not any(folder.path.iterdir())
    except OSError as error:
        found = f"{folder.path} cannot be read: {error.strerror}"
        return [fault("run folder", found, "correct the owner and rights of the folders")]
    if is_new:
        return [ok("run folder", f"{folder.path} is new: azserver makes it, with an untrained network")]
    try:
        game = str(folder.describe()["game"])
        # Read only for the error: a damaged identity would stop azserver.
        _ = folder.run_id
    except Fatal as error:
        return [fault("run folder", str(error), "restore run.json from a backup, or choose another --run")]
    if game != wanted:
        found = f"{folder.path} is of {game}, not {wanted}"
        return [fault("run folder", found, f"give --game {game}, or choose another --run")]
    works = ", an azserver works on it" if locked else ""
    games, any_games = games_finding(folder)
    found = f"{folder.path}, {game}{works}"
    return [ok("run folder", found), weights_finding(folder, game, any_games=any_games), games]


def weights_finding(folder: RunFolder, game: str, *, any_games: bool) -> Finding:
    from server.weights import WeightsStore

    files = len(list(folder.weights.glob("*.safetensors")))
    try:
        info = WeightsStore(folder.weights, game).read()
    except Fatal as error:
        is_damaged = error.code == Exit.BAD_DATA
        todo = "restore weights/ from a backup" if is_damaged else "look at the disk or the network drive"
        return fault("weights files", str(error), todo)
    if info is not None:
        kept = f"{files} file{'' if files == 1 else 's'} kept"
        return ok("weights files", f"version {info.version} is whole, {kept}")
    # Games or files without `current.json`: something was lost, and azserver would not notice.
    if files or any_games:
        return fault(
            "weights files",
            "weights/current.json is missing: azserver would begin with an untrained network again",
            "restore it from a backup, or give --weights FILE with the newest file in weights/",
        )
    return ok("weights files", "none yet")


def games_finding(folder: RunFolder) -> tuple[Finding, bool]:
    """Return what the newest games say, and whether the store has any that can be read."""
    from azselfplay.store.reader import Range, StoreReader
    from protocol.records import BadRecord

    if not folder.games.exists():
        return ok("games", "none here: the trainer keeps them in its own run folder"), False
    damaged = 0
    try:
        with closing(StoreReader(folder.games)) as reader:
            for stored in reader.rows(Range(newest=NEWEST)):
                try:
                    stored.unpacked()
                except BadRecord:
                    damaged += 1
            games = reader.span()[1]
    except Fatal as error:
        todo = "restore games.db from a backup, or move it away to begin without games"
        return fault("games", str(error), todo), False
    if damaged:
        found = f"{damaged} of the newest {NEWEST} games have changed since they were written"
        todo = "check the disk (smartctl, dmesg); azplay games RUN verify names them"
        return fault("games", found, todo), True
    return ok("games", f"{games:,}, the newest of them whole"), games > 0
