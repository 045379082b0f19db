"""The doctor judges facts: it finds each fault among them, and says what to do."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_faults import FIGURES, faults

from azselfplay.diagnostics.doctor.findings import Level, as_json, as_text, exit_status, fault, ok, warning
from azselfplay.diagnostics.doctor.machine import GB, Folder, Machine, Needs, look_at, machine_findings
from azselfplay.diagnostics.doctor.service import PortFacts, ServiceFacts, figure_findings, service_findings
from azselfplay.host.exits import Exit
from azselfplay.host.hardware import Gpus
from protocol.messages import Goodbye, Welcome
from protocol.sessions import version_refusal

WELL = Machine(8, 16_000_000_000, 65_536, Folder(Path("/d"), 100_000_000_000), Folder(Path("/c"), 1))
NEEDS = Needs(files=256, usual_files=1024, folder="the spool")


def welcome(**changes: object) -> Welcome:
    usual = {"session": 1, "software": "x 1", "run": "r", "game": "chess", "self_play": {}, "credits": 1}
    usual |= {"games_in_flight": 1, "heartbeat": 1.0, "lease": 9.0}
    return Welcome(**(usual | changes))  # type: ignore[arg-type]


def service(**changes: object) -> ServiceFacts:
    ports = [PortFacts(name, f"h:{port}", answer=welcome()) for name, port in (("leaves", 1), ("bulk", 2))]
    usual = ServiceFacts(ports, "x 1", FIGURES, 0.1)
    return replace(usual, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("machine", "check", "level"),
    [
        (WELL, "", Level.FAULT),
        (replace(WELL, memory=int(0.1 * GB)), "memory", Level.FAULT),
        (replace(WELL, memory=int(GB)), "memory", Level.WARNING),
        (replace(WELL, folder=Folder(Path("/d"), 10**12, "No space left on device")), "disk", Level.FAULT),
        (replace(WELL, folder=Folder(Path("/d"), 10**6)), "disk", Level.FAULT),
        (replace(WELL, folder=Folder(Path("/d"), 10**9)), "disk", Level.WARNING),
        (replace(WELL, cache=Folder(Path("/c"), 1, "Permission denied")), "compiled code", Level.FAULT),
        (replace(WELL, files=64), "open files", Level.FAULT),
        (replace(WELL, files=512), "open files", Level.WARNING),
        (replace(WELL, gpu_error="nvidia-smi: no driver"), "GPUs", Level.FAULT),
    ],
)
def test_a_machine_is_judged_by_its_facts(machine: Machine, check: str, level: Level) -> None:
    found = faults(machine_findings(machine, NEEDS), level)
    assert found == ({check} if check else set())


def test_a_containers_limit_counts_as_the_memory_of_its_machine(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("azselfplay.diagnostics.doctor.machine.memory_left", lambda: 1000.0)
    assert look_at(tmp_path, tmp_path).memory == 1000


def test_a_gpu_that_is_asked_for_must_be_there() -> None:
    one = replace(WELL, gpus=["H200 (141 GB, driver 550.1)"])
    assert faults(machine_findings(one, replace(NEEDS, gpus=[0]))) == set()
    assert faults(machine_findings(one, replace(NEEDS, gpus=[0, 1]))) == {"GPUs"}
    # Here torch may see less than its driver, or a GPU that nvidia-smi does not show.
    assert faults(machine_findings(replace(one, torch=Gpus((), ())), replace(NEEDS, gpus=[0]))) == {"GPUs"}
    by_torch = replace(WELL, torch=Gpus(["A", "B"], ["cuda:1"]))
    assert faults(machine_findings(by_torch, replace(NEEDS, gpus=[1]))) == set()
    shown = [finding.found for finding in machine_findings(one, NEEDS) if finding.check == "GPUs"]
    assert shown == ["H200 (141 GB, driver 550.1)"]


@pytest.mark.parametrize(
    ("facts", "check", "level"),
    [
        (service(), "", Level.FAULT),
        (service(software="x 2"), "version", Level.WARNING),
        (service(clock_ahead=-7.0), "clock", Level.WARNING),
        (service(clock_ahead=90.0), "clock", Level.FAULT),
        (service(run="other"), "run", Level.FAULT),
        (service(game="go"), "game", Level.FAULT),
        (service(figures={**FIGURES, "evaluators": 0}), "evaluators", Level.FAULT),
        (service(figures={**FIGURES, "evaluators": 0, "players_evaluate": True}), "", Level.FAULT),
        (service(figures={**FIGURES, "evaluators": 0, "uptime_s": 5.0}), "evaluators", Level.WARNING),
        (service(figures={**FIGURES, "evaluators": 0, "uptime_s": 500.0}), "evaluators", Level.FAULT),
        (service(figures={**FIGURES, "weights_version": -1}), "weights", Level.FAULT),
        (service(figures={**FIGURES, "sessions": {}}), "trainer", Level.WARNING),
        (service(figures={**FIGURES, "trainer": {"not_stored": "full"}}), "trainer", Level.FAULT),
        (service(figures={**FIGURES, "sessions": {}, "trainer": {"not_stored": "full"}}), "", Level.FAULT),
        (service(figures={**FIGURES, "faults": 2}), "faults", Level.WARNING),
        (service(figures={**FIGURES, "trainer": {"alerts": ["memorising: x"]}}), "learning", Level.WARNING),
    ],
)
def test_a_server_is_judged_by_its_facts(facts: ServiceFacts, check: str, level: Level) -> None:
    assert faults(service_findings(facts), level) == ({check} if check else set())


@pytest.mark.parametrize(
    ("port", "level", "words"),
    [
        (PortFacts("leaves", "h:1", "Connection refused"), Level.FAULT, "refused"),
        (PortFacts("leaves", "h:1"), Level.FAULT, "does not answer as azserver"),
        (PortFacts("leaves", "h:1", answer=Goodbye("busy", "later", 5.0)), Level.WARNING, "later"),
        (PortFacts("leaves", "h:1", answer=Goodbye("role_not_allowed", "no")), Level.FAULT, "no"),
        (PortFacts("leaves", "h:1", answer=version_refusal(9, "client")), Level.FAULT, "upgrade"),
    ],
)
def test_a_port_is_judged_by_what_came_back(port: PortFacts, level: Level, words: str) -> None:
    (found,) = service_findings(ServiceFacts([port], "x 1"))
    assert found.level is level
    assert words in found.found
    assert found.todo


def test_what_is_wrong_with_both_ports_alike_is_said_once() -> None:
    refused = [PortFacts("leaves", "h:1", "refused"), PortFacts("bulk", "h:2", "refused")]
    (found,) = service_findings(ServiceFacts(refused, "x 1"))
    assert (found.check, found.found) == ("leaves and bulk ports", "h:1 and 2: refused")
    other = [refused[0], replace(refused[1], unreachable="no answer")]
    assert faults(service_findings(ServiceFacts(other, "x 1"))) == {"leaves port", "bulk port"}


def test_who_gives_the_bulk_port_is_told_the_base_port() -> None:
    ports = [PortFacts("leaves", "h:5601", answer=welcome()), PortFacts("bulk", "h:5602", "refused")]
    (found,) = (one for one in service_findings(service(ports=ports)) if one.check == "bulk port")
    assert "give the base port, one less (h:5600)" in found.todo


def test_status_without_figures_is_no_crash() -> None:
    """An older server sends fewer figures."""
    assert faults(figure_findings({})) == {"evaluators", "weights"}


def test_only_faults_change_the_exit_status() -> None:
    assert exit_status([ok("a", "fine"), warning("b", "x", "do")]) == Exit.OK
    assert exit_status([ok("a", "fine"), fault("b", "x", "do")]) == Exit.FOUND


def test_findings_are_shown_as_a_table_and_as_json() -> None:
    findings = [ok("cores", "8"), warning("clock", "7 s", "set it"), fault("disk", "full", "free some")]
    text = as_text(findings)
    assert text.splitlines()[1:4] == ["ok       cores  8", "WARNING  clock  7 s", "FAULT    disk   full"]
    assert text.index("free some") < text.index("set it")
    assert text.endswith("3 checks; faults: 1, warnings: 1")
    shown = json.loads(as_json(findings))
    assert (shown["ok"], shown["warning"], shown["fault"]) == (1, 1, 1)
    assert shown["findings"][2] == {"check": "disk", "level": "fault", "found": "full", "todo": "free some"}
