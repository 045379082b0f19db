"""`azclient doctor HOST`: checks whether this machine can play for an azserver, and how that server is
doing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from azselfplay.diagnostics.doctor.findings import DoctorOptions, Finding, fault, ok, printed, warning
from azselfplay.diagnostics.doctor.machine import Needs, look_at, machine_findings
from azselfplay.diagnostics.doctor.service import service_findings
from azselfplay.host import config
from azselfplay.host.exits import Fatal, is_installed
from azselfplay.host.folders import compiled_code_folder
from azselfplay.host.ports import parse_address
from azselfplay.link.keys import dial_keys
from client.config import ClientConfig, count_gpus, default_spool, devices_for

EXAMPLES = (
    "azclient doctor gpu-box                        # can this machine play for it?",
    "azclient doctor gpu-box:5700 --run chess-1     # and is it the run that I mean?",
    "azclient doctor gpu-box --json                 # for scripts",
)
NEEDS = Needs(files=256, usual_files=1024, folder="the spool")


@dataclass(frozen=True)
class DoctorConfig(DoctorOptions, ClientConfig):
    """Checks this machine, the way to an azserver, and that server. HOST is --server HOST."""

    run: str = ""
    """Name of the run that the server should serve; empty: any."""
    game: str = ""
    """Game that the server should play; empty: any."""


def main(argv: Sequence[str]) -> int:
    """Print the findings; the exit status is FOUND if there is a fault."""
    words = list(argv)
    # Accept `azclient doctor HOST`, as people write it.
    if words and not words[0].startswith("-"):
        words[:1] = ["--server", words[0]]
    settings = config.load(DoctorConfig, words, command="azclient doctor", examples=EXAMPLES)
    return printed(examine(settings), json=settings.json)


def examine(settings: DoctorConfig) -> list[Finding]:
    """Return all findings."""
    from azselfplay.diagnostics.doctor.probe import probe

    keys = dial_keys(settings.server_key, settings.key, "client")
    address = replace(parse_address(settings.server), keys=keys)
    spool = settings.spool or default_spool(address)
    numbers = [int(number) for number in re.findall(r"cuda:(\d+)", settings.device)]
    machine = look_at(spool, compiled_code_folder(), asks_torch=bool(numbers))
    findings = machine_findings(machine, replace(NEEDS, gpus=numbers))
    try:
        devices_for(settings.device, count_gpus(), has_torch=is_installed("torch"))
    except Fatal as error:
        found, _, todo = str(error).partition(": ")
        findings.append(fault("device", found, todo))
    facts = probe(address, settings.run, settings.game)
    findings += service_findings(facts)
    welcome = facts.welcome
    identity = welcome.run_id.hex() if welcome is not None else ""
    if welcome is not None and not machine.cache.error:
        # Imports the compiler, which needs its cache.
        from client.warm import read_welcome

        try:
            read_welcome(welcome)
        except Fatal as error:
            found, _, todo = str(error).rpartition("; ")
            findings = [one for one in findings if one.check != "game"] + [fault("game", found, todo)]
    return [*findings, *spool_findings(spool, waiting_games(spool), identity)]


def waiting_games(spool: Path) -> dict[str, int]:
    """Return how many finished games wait for a trainer, by the folder of their run."""
    folders: list[Path] = []
    with suppress(OSError):  # the machine's findings name a folder that cannot be entered
        folders = sorted(one for one in spool.glob("*") if one.is_dir())
    counts = {one.name: sum(1 for _ in one.glob("worker-*/*.game")) for one in folders}
    return {name: count for name, count in counts.items() if count}


def spool_findings(spool: Path, games: Mapping[str, int], identity: str) -> list[Finding]:
    """Return findings about the games that wait in `spool`. `identity`: the server's run, in hex; empty:
    unknown."""
    from client.spool import IDENTITY_DIGITS, MARK

    own = f"{MARK}{identity[:IDENTITY_DIGITS]}"
    # Without an answer from the server, it is unknown which games belong to its run.
    others = {name: count for name, count in games.items() if identity and not name.endswith(own)}
    waiting = sum(games.values()) - sum(others.values())
    findings = [ok("spool", f"{waiting} games wait for the trainer in {spool}")]
    if others:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(others.items()))
        todo = "they go out when azclient plays for their run again; remove the folders if it never will"
        findings.append(warning("spool", f"games of other runs wait in {spool}: {names}", todo))
    return findings
