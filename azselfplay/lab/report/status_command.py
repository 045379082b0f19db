"""`azplay status`: one look at a run; the exit status tells scripts whether all is well."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from azselfplay.diagnostics.advice import is_warning, with_advice
from azselfplay.diagnostics.doctor.findings import Level
from azselfplay.diagnostics.doctor.service import figure_findings, is_starting, service_findings
from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.ports import DEFAULT_PORT, Address, parse_address
from azselfplay.host.reading import read_toml
from azselfplay.host.runs import RunFolder, has_final_figures, is_locked, newest_row, shown_settings
from azselfplay.host.view import aligned, rows, trainer_of
from azselfplay.link.finding import RUNS, SERVER_LOCK, run_named, served_runs
from azselfplay.link.keys import address_in, dial_keys, own_server_keys

EXAMPLES = (
    "azplay status                              # the azserver on this machine",
    "azplay status --server gpu-box:5700 --json # one on another, for scripts",
    "azplay status runs/chess-tiny              # a run's folder: live if its azserver runs here",
)
LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class StatusConfig:
    """Says how a run is. Exit status: 0 if all is well, 3 for an alert or a fault, 69 if no azserver
    answers (not for a run that is named: it may have ended), 77 if it does not let this machine in, 2 if
    several run here and none is named."""

    run: Positional[str] = ""
    """Folder of a run, or its name in --runs; empty: ask --server."""
    runs: Path = RUNS
    """Folder of all runs."""
    server: str = ""
    """HOST or HOST:PORT of a live azserver; empty: the one that you have started on this machine."""
    server_key: str = ""
    """The public key of --server, if it asks for keys."""
    key: Path | None = None
    """File of this machine's key; not given: ~/.config/azselfplay/client.key."""
    json: bool = False
    """Print JSON, for scripts."""


@dataclass(frozen=True)
class RunStatus:
    """The known figures of a run."""

    live: bool
    """Whether the figures come from a running azserver just now; otherwise the trainer left them in the
    folder."""
    figures: Mapping[str, Any]
    """Figures with the keys of STATUS (docs/protocol.md)."""
    trainer_runs: bool = False
    """Whether the figures come from the folder, and a trainer on this machine works on the run."""

    @property
    def alerts(self) -> list[str]:
        """Signs that the run does not learn."""
        return [str(alert) for alert in trainer_of(self.figures).get("alerts") or ()]

    @property
    def faults(self) -> list[str]:
        """Problems that keep a live run from playing."""
        found = figure_findings(self.figures) if self.live else []
        return [f"{one.check}: {one.found}" for one in found if one.level is Level.FAULT]

    @property
    def exit(self) -> Exit:
        return Exit.FOUND if self.faults or not all(map(is_warning, self.alerts)) else Exit.OK


def main() -> int:
    """Entry point. Returns the exit status."""
    config = load(StatusConfig, command="azplay status", examples=EXAMPLES)
    # A run that is named counts more than a server that the environment names for all commands.
    if config.run and config.server not in ("", os.environ.get("AZ_SERVER")):
        raise Fatal("give a run's folder or --server, not both", Exit.USAGE)
    if config.run:
        status = of_folder(config.run, config.runs)
    elif config.server:
        keys = dial_keys(config.server_key, config.key, "client")
        status = of_server(replace(parse_address(config.server), keys=keys))
    else:
        status = of_this_machine()
    print(as_json(status) if config.json else as_text(status))
    return int(status.exit)


def of_this_machine() -> RunStatus:
    """Return the status from the azserver that this user runs here, or else from any azserver at the usual
    port.

    Raises Fatal(USAGE) naming the azservers if there are several, Fatal(UNREACHABLE) if there is none.
    """
    served = [folder for folder in served_runs() if _listens(folder)]
    # A guess might show somebody else's run. Naming the runs needs no keys, which may not be on this machine.
    if len(served) > 1:
        which = ", ".join(f"{folder.path} (port {_settings_in(folder)[1].port})" for folder in served)
        example = f"azplay status {served[0].path}"
        raise Fatal(f"several azservers run here: {which}; name one, such as `{example}`", Exit.USAGE)
    if served:
        return of_server(_address_in(served[0]))
    try:
        return of_server(Address(LOCAL, DEFAULT_PORT))
    except Fatal as error:
        if error.code is not Exit.UNREACHABLE:
            raise
        raise Fatal(
            f"you have no azserver running on this machine, and none answers at port {DEFAULT_PORT}: give "
            "--server HOST:PORT, or a run's folder or name to see how its trainer left it",
            Exit.UNREACHABLE,
        ) from error


def of_server(address: Address) -> RunStatus:
    """Ask a running azserver. Raises Fatal: UNREACHABLE if it does not answer, REFUSED if it does not let us
    in."""
    from azselfplay.diagnostics.doctor.probe import probe

    facts = probe(address)
    if facts.figures is None:
        fault = next((one for one in service_findings(facts) if one.level is Level.FAULT), None)
        late = f"{address.server} did not tell its status in time; try again, or look at its log"
        code = Exit.REFUSED if any(port.refused for port in facts.ports) else Exit.UNREACHABLE
        raise Fatal(f"{fault.found}; {fault.todo}" if fault else late, code)
    return RunStatus(True, facts.figures)


def of_folder(run: str, runs: Path) -> RunStatus:
    """Return the status of a run by its folder or name: from its azserver if this runs on this machine, else
    from its files.

    Raises Fatal(BAD_DATA) if it is not a run's folder.
    """
    from azselfplay.store.reader import game_of  # imports numpy

    folder = run_named(run, runs)
    game = game_of(folder)
    # The run's azserver works here, and its answer is newer than any file.
    if is_locked(folder.path / SERVER_LOCK) and _listens(folder):
        return of_server(_address_in(folder))
    trainer = folder.read_figures()
    if not has_final_figures(folder):
        # Names in figures.jsonl have their group before a slash; figures.json has tables instead.
        last = newest_row(folder)
        trainer = {"alerts": last.get("alerts", [])}
        for name, value in last.items():
            group, _, key = name.partition("/")
            if group == "trainer":
                trainer[key] = value
            elif key:
                trainer.setdefault(group, {})[key] = value
    trainer_runs = is_locked(folder.lock_of("trainer"))
    return RunStatus(False, {"run": folder.name, "game": game, "trainer": trainer}, trainer_runs)


def _listens(folder: RunFolder) -> bool:
    """Return whether an azserver answers for the run. A repeatable run holds the same lock, but listens
    nowhere (port 0)."""
    return shown_settings(folder.config).get("port") != 0


def _settings_in(folder: RunFolder) -> tuple[Mapping[str, Any], Address]:
    """Return the settings that the run's azserver left in the folder, and its address, without keys."""
    try:
        settings = read_toml(folder.config)
        address = address_in(settings)
        if address is None:
            raise ValueError("it does not say where azserver listens")
    except (OSError, ValueError) as error:
        raise Fatal(
            f"{folder.config} cannot be read ({error}); give --server HOST:PORT", Exit.BAD_DATA
        ) from error
    return settings, address


def _address_in(folder: RunFolder) -> Address:
    """Return the address of the run's azserver, with the server's own key if it uses keys."""
    settings, address = _settings_in(folder)
    try:
        return replace(address, keys=own_server_keys(settings))
    except Fatal as error:
        what = f"the azserver of run {folder.name} asks for keys, and its own is not here ({error})"
        to_do = f"give --server {address.server} --server-key KEY, and --key FILE with a key that it allows"
        raise Fatal(f"{what}: {to_do}", error.code) from error


def as_text(status: RunStatus) -> str:
    """Return the status as a table."""
    state = "as its trainer left it: no azserver works on it here"
    if status.trainer_runs:
        state = "its trainer works here, and no azserver does: ask that with --server HOST:PORT"
    elif status.live:
        state = "live"
    head = [("run", f"{status.figures.get('run')} ({status.figures.get('game')}), {state}")]
    # If a run is not live, a row without any digit says nothing.
    said = [row for row in rows(status.figures) if status.live or any(map(str.isdigit, row[1]))]
    shown = [row for row in said if row[0] != "alert"]
    if status.live and is_starting(status.figures):
        head.append(("starting", "azserver has no evaluator yet; ask again in a minute"))
    table = aligned([*head, *shown, *(("FAULT", fault) for fault in status.faults)], left=2)
    signs = [f"{'WARNING' if is_warning(alert) else 'ALERT'} {with_advice(alert)}" for alert in status.alerts]
    return "\n".join([table, *signs])


def as_json(status: RunStatus) -> str:
    """Return the status as one JSON object."""
    shown = {"live": status.live, "alerts": status.alerts, "faults": status.faults}
    figures = {**status.figures, "trainer": trainer_of(status.figures)} if status.figures else {}
    return json.dumps({**shown, "figures": figures}, indent=1)
