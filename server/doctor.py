"""`azserver doctor`: checks whether machine and run folder are fit for azserver, and how a running one is
doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from diagnostics.doctor.machine import Needs, look_at, machine_findings
from diagnostics.doctor.service import (
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
from protocol.messages import Welcome
from runtime import config
from runtime.keys import keys_folder, server_keys
from runtime.ports import ANYWHERE, PORTS, Address
from runtime.runs import RunFolder
from runtime.writable import compiled_code_folder
from server.config import ServerConfig

if TYPE_CHECKING:
    from server.run_doctor import RunFacts

EXAMPLES = (
    "azserver doctor --game chess --gpus 0,1                  # before the first start, with its flags",
    "azserver doctor --config runs/chess-small/config.toml    # a run, as it was last started",
    "azserver doctor --run my-run --game go --json            # for scripts",
)
FILES = Needs(files=1024, usual_files=16_384, folder="the run's folder")


@dataclass(frozen=True)
class DoctorConfig(DoctorOptions, ServerConfig):
    """The settings of azserver and those of the check."""


def main(argv: Sequence[str]) -> int:
    """Print the findings; the exit status is FOUND if there is a fault."""
    settings = config.load(
        DoctorConfig,
        argv,
        command="azserver doctor",
        examples=EXAMPLES,
        description="Checks machine, run folder and ports for azserver, or an azserver that already runs.",
    )
    settings = settings.check()
    findings = examine(settings)
    print(as_json(findings) if settings.json else as_text(findings))
    return int(exit_status(findings))


def examine(settings: DoctorConfig) -> list[Finding]:
    """Return all findings."""
    from server.run_doctor import look_at_run, run_findings  # reads games: not on the way to --help

    folder = RunFolder(settings.runs, settings.run or f"{settings.game}-{settings.net}")
    cache = compiled_code_folder()
    machine = look_at(folder.path, cache)
    run = look_at_run(folder, settings.game)
    findings = machine_findings(machine, replace(FILES, gpus=_gpus(settings.gpus)))
    findings += run_findings(run)
    seconds = 0.0 if machine.cache.error else settings.seconds
    return findings + _port_findings(settings, run, folder.name, seconds)


def _gpus(setting: str) -> list[int]:
    return [int(word) for word in setting.split(",") if word.strip().isdecimal()]


def _port_findings(settings: DoctorConfig, run: RunFacts, name: str, seconds: float) -> list[Finding]:
    from diagnostics.doctor.probe import Probing, probe

    host = "127.0.0.1" if settings.listen in ANYWHERE else settings.listen
    folder = keys_folder(settings.listen, settings.keys, insecure=settings.insecure)
    keys = None if folder is None else server_keys(folder)
    address = Address(host, settings.port, keys)
    # A server that does not hold the run's lock is another one, whose players must not be disturbed.
    facts = probe(address, Probing(seconds if run.locked else 0.0, name, settings.game))
    return service_findings(facts) if run.locked else free_ports(facts, address)


def free_ports(facts: ServiceFacts, address: Address) -> list[Finding]:
    """Return whether the ports are free, for a run without an azserver."""
    taken = [port for port in facts.ports if not port.unreachable]
    ports = " and ".join(str(address.port + offset) for offset in range(PORTS))
    if not taken:
        return [ok("ports", f"{ports} are free")]
    who = "another program"
    if isinstance(taken[0].answer, Welcome):
        who = f"the azserver of run {taken[0].answer.run}"
    places = " and ".join(port.address for port in taken)
    return [fault("ports", f"{who} listens on {places}", "stop it, or give another base port with --port")]
