"""The doctor: each fault that is put in is found, and says what to do."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from client_server import FakeServer
from front_bench import Bench, play_beside_front
from small_disk import small_disk

from client.doctor import DoctorConfig as ClientDoctor
from client.doctor import SpoolFacts, examine, look_at_spool, spool_findings
from diagnostics.doctor.finding import Finding, Level, as_json, as_text, exit_status, fault, ok, warning
from diagnostics.doctor.machine import (
    GB,
    Folder,
    Gpu,
    Machine,
    Needs,
    compiled_code_folder,
    machine_findings,
    probe_folder,
)
from diagnostics.doctor.probe import Probing, empty_leaves, probe
from diagnostics.doctor.service import (
    PortFacts,
    ServiceFacts,
    Throughput,
    figure_findings,
    service_findings,
)
from games import GAME_NAMES, get_game
from protocol.frames import check_leaves
from protocol.messages import PROTOCOL_VERSION, GetStatus, Goodbye, Status, Welcome, decode
from protocol.sessions import version_refusal
from runtime.exits import Exit
from runtime.extras import EXTRAS
from runtime.ports import Address, find_base_port
from runtime.runs import RunFolder
from runtime.sockets import new_context
from server.doctor import DoctorConfig, free_ports
from server.doctor import examine as examine_server
from server.front import FrontSettings
from server.run_doctor import RunFacts, look_at_run, run_findings
from server.weights import WeightsStore
from store.sqlite import Store

HERE = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[2]
WELL = Machine(8, 16_000_000_000, 65_536, Folder(Path("/d"), 100_000_000_000), Folder(Path("/c"), 1))
NEEDS = Needs(files=256, usual_files=1024, folder="the spool")
FIGURES = {"evaluators": 1, "evals_per_s": 5.0, "weights_version": 3, "sessions": {"trainer": 1}}


def faults(findings: list[Finding], level: Level = Level.FAULT) -> set[str]:
    """The checks that found one; each says what to do."""
    assert all(bool(one.todo) == (one.level is not Level.OK) for one in findings)
    return {one.check for one in findings if one.level is level}


def welcome(**changes: object) -> Welcome:
    usual = {"session": 1, "software": "x 1", "run": "r", "game": "chess", "self_play": {}, "credits": 1}
    usual |= {"games_in_flight": 1, "heartbeat": 1.0, "lease": 9.0}
    return Welcome(**(usual | changes))  # type: ignore[arg-type]


def service(**changes: object) -> ServiceFacts:
    ports = [PortFacts(name, f"h:{port}", answer=welcome()) for name, port in (("leaves", 1), ("bulk", 2))]
    usual = ServiceFacts(ports, "x 1", FIGURES, 0.1, Throughput(1000, 2.0, 0.01))
    return replace(usual, **changes)  # type: ignore[arg-type]


# ---- what facts mean --------------------------------------------------------------------------


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


def test_a_gpu_that_is_asked_for_must_be_there() -> None:
    one = replace(WELL, gpus=[Gpu("H200", "550.1", "141 GB")])
    assert faults(machine_findings(one, replace(NEEDS, gpus=[0]))) == set()
    assert faults(machine_findings(one, replace(NEEDS, gpus=[0, 1]))) == {"GPUs"}
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
        (service(figures={**FIGURES, "weights_version": -1}), "weights", Level.FAULT),
        (service(figures={**FIGURES, "sessions": {}}), "trainer", Level.WARNING),
        (service(figures={**FIGURES, "faults": 2}), "faults", Level.WARNING),
        (service(figures={**FIGURES, "trainer": {"alerts": ["memorising: x"]}}), "learning", Level.WARNING),
        (service(throughput=Throughput(0, 7.0)), "throughput", Level.FAULT),
        (service(throughput=Throughput(why_not="busy")), "throughput", Level.WARNING),
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
        (
            PortFacts("leaves", "h:1", answer=version_refusal(9, "client")),
            Level.FAULT,
            "upgrade",
        ),
    ],
)
def test_a_port_is_judged_by_what_came_back(port: PortFacts, level: Level, words: str) -> None:
    (found,) = service_findings(ServiceFacts([port], "x 1"))
    assert found.level is level
    assert words in found.found
    assert found.todo


def test_status_without_figures_is_no_crash() -> None:
    """An older server tells less."""
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


# ---- folders ----------------------------------------------------------------------------------


def test_a_full_disk_is_found_by_writing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", megabytes=1) as disk:
        disk.fill()
        found = probe_folder(disk.path / "runs" / "new")
        assert "No space left" in found.error
        disk.free()


def test_a_folder_that_is_none_takes_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is no folder" in probe_folder(tmp_path / "file" / "jit").error
    assert probe_folder(tmp_path / "new").error == ""
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_compiled_code_is_looked_for_where_it_is_kept() -> None:
    from games.jit import cache_folder

    assert compiled_code_folder() == cache_folder().parent


def run_folder(root: Path) -> RunFolder:
    """A run with weights and an empty store."""
    folder = RunFolder(root, "r")
    folder.create("tic_tac_toe", 1)
    WeightsStore(folder.weights, "tic_tac_toe").add(b"weights", 4, 40, "tiny")
    Store(folder.games, "tic_tac_toe").close()
    return folder


def damage_about(folder: RunFolder) -> None:
    folder.about.write_text("{")


def remove_about(folder: RunFolder) -> None:
    folder.about.unlink()


def remove_weights(folder: RunFolder) -> None:
    next(folder.weights.glob("*.safetensors")).unlink()


def damage_weights(folder: RunFolder) -> None:
    next(folder.weights.glob("*.safetensors")).write_bytes(b"wEights")


def remove_current(folder: RunFolder) -> None:
    (folder.weights / "current.json").unlink()


def damage_games(folder: RunFolder) -> None:
    folder.games.write_bytes(b"this is no database" * 1000)


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        (lambda _: None, ""),
        (damage_about, "run"),
        (remove_about, "run"),
        (remove_weights, "weights files"),
        (damage_weights, "weights files"),
        (remove_current, "weights files"),
        (damage_games, "games"),
    ],
)
def test_a_damaged_run_folder_is_found(
    tmp_path: Path, damage: Callable[[RunFolder], None], check: str
) -> None:
    folder = run_folder(tmp_path)
    damage(folder)
    before = sorted((path, path.lstat().st_mtime_ns) for path in folder.weights.iterdir())
    assert faults(run_findings(look_at_run(folder, "tic_tac_toe"))) == ({check} if check else set())
    assert sorted((path, path.lstat().st_mtime_ns) for path in folder.weights.iterdir()) == before


def test_a_folder_of_another_game_is_found_and_a_new_one_is_fine(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    assert faults(run_findings(look_at_run(folder, "chess"))) == {"run"}
    assert faults(run_findings(look_at_run(RunFolder(tmp_path, "new"), "chess"))) == set()


def test_a_folder_that_an_azserver_works_on_is_told() -> None:
    assert (
        "an azserver works on it"
        in run_findings(RunFacts(Path("r"), "go", True, game="go", locked=True))[0].found
    )


def test_the_lock_of_a_running_azserver_is_seen_and_not_taken(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with folder.lock("azserver"):
        assert look_at_run(folder, "tic_tac_toe").locked
    assert not look_at_run(folder, "tic_tac_toe").locked
    folder.lock("azserver").close()


def test_games_of_another_run_that_wait_are_told(tmp_path: Path) -> None:
    for run in ("go-a+00112233aabb", "go-b+ffffffffffff"):
        (tmp_path / run / "worker-0").mkdir(parents=True)
        (tmp_path / run / "worker-0" / "1.game").touch()
    findings = spool_findings(look_at_spool(tmp_path), "00112233aabb" + 20 * "0")
    assert faults(findings, Level.WARNING) == {"spool"}
    assert "go-b+ffffffffffff (1)" in findings[1].found
    assert findings[0].found.startswith("1 games wait")
    assert faults(spool_findings(SpoolFacts(tmp_path), ""), Level.WARNING) == set()


# ---- real sockets -----------------------------------------------------------------------------


class StatusServer(FakeServer):
    """Answers GET_STATUS, too."""

    figures: dict[str, object] = FIGURES

    def _on_message(self, frames: list[memoryview]) -> None:
        super()._on_message(frames)
        if isinstance(decode(frames[1]), GetStatus):
            self.send(bytes(frames[0]), Status(self.figures))


def beside_server(scenario: Callable[[Address, list[StatusServer]], Awaitable[None]]) -> None:
    """Run `scenario` beside something that listens on both ports."""

    async def main() -> None:
        context, base = new_context(), find_base_port(24_000)
        servers = [StatusServer(context, f"tcp://{HERE}:{base + offset}") for offset in (0, 1)]
        try:
            async with asyncio.timeout(240):
                await scenario(Address(HERE, base), servers)
        finally:
            for server in servers:
                server.close()
            context.destroy(0)

    asyncio.run(main())


UNMEASURED = Probing(seconds=0.0)


async def looked_at(address: Address, probing: Probing = UNMEASURED) -> list[Finding]:
    return service_findings(await asyncio.to_thread(probe, address, probing))


def test_closed_ports_are_found(tmp_path: Path) -> None:
    settings = ClientDoctor(f"{HERE}:{find_base_port(25_000)}", spool=tmp_path, seconds=0.0)
    assert {"leaves port", "bulk port"} <= faults(examine(settings))


def test_azclients_doctor_needs_none_of_the_extras(tmp_path: Path) -> None:
    """It runs where only what a client needs is installed."""
    words = [f"{HERE}:{find_base_port(25_000)}", "--spool", str(tmp_path), "--json"]
    code = f"import sys; from client.doctor import main; main({words}); print('loaded', *sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert said.returncode == 0, said.stderr
    loaded = said.stdout.rpartition("loaded ")[2].split()
    assert "zmq" in loaded
    assert [package for package in EXTRAS["train"] if package in loaded] == []


def test_a_port_where_something_else_listens_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.doctor.probe.ANSWER_SECONDS", 0.5)
    with socket.socket() as other:
        other.bind((HERE, 0))
        other.listen()
        facts = probe(Address(HERE, other.getsockname()[1]), Probing(0.0))
        assert facts.ports[0].answer is None
        assert facts.ports[0].unreachable == ""
        assert "leaves port" in faults(service_findings(facts))
        assert faults(free_ports(facts, Address(HERE, 1))) == {"ports"}


def test_a_server_of_another_protocol_is_found() -> None:
    async def scenario(address: Address, servers: list[StatusServer]) -> None:
        for server in servers:
            server.refusal = version_refusal(PROTOCOL_VERSION - 1, "watcher")
        assert faults(await looked_at(address)) == {"leaves port", "bulk port"}

    beside_server(scenario)


def test_another_run_a_wrong_clock_and_other_software_are_found() -> None:
    async def scenario(address: Address, servers: list[StatusServer]) -> None:
        for server in servers:
            server.figures = {**FIGURES, "time": 1e9}
        findings = await looked_at(address, Probing(0.0, run="mine", game="chess"))
        assert faults(findings) == {"run", "game", "clock"}
        assert faults(findings, Level.WARNING) == {"version"}

    beside_server(scenario)


def on_tcp(base: int) -> Callable[[FrontSettings], FrontSettings]:
    """A front that listens at two ports as well."""

    def changed(usual: FrontSettings) -> FrontSettings:
        leaves, bulk = (f"tcp://{HERE}:{base + offset}" for offset in (0, 1))
        return replace(usual, leaves=(*usual.leaves, leaves), bulk=(*usual.bulk, bulk))

    return changed


def test_a_real_front_without_an_evaluator_is_a_fault_and_with_one_is_measured(tmp_path: Path) -> None:
    base = find_base_port(26_000)

    async def scenario(bench: Bench) -> None:
        findings = await looked_at(Address(HERE, base), Probing(0.2))
        assert faults(findings) == {"evaluators"}
        assert faults(findings, Level.WARNING) == {"trainer"}
        await bench.evaluator()
        facts = await asyncio.to_thread(probe, Address(HERE, base), Probing(0.2))
        assert faults(service_findings(facts)) == set()
        assert facts.throughput is not None
        assert facts.throughput.rows > 0
        assert facts.clock_ahead is not None
        assert abs(facts.clock_ahead) < 60
        assert bench.front.figures.protocol_errors == bench.front.figures.over_credit == 0

    asyncio.run(play_beside_front(tmp_path, scenario, settings=on_tcp(base)))


def test_an_evaluator_that_answers_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.doctor.probe.ANSWER_SECONDS", 1.0)
    base = find_base_port(27_000)

    async def scenario(bench: Bench) -> None:
        evaluator = await bench.evaluator()
        evaluator.holding = True
        assert "throughput" in faults(await looked_at(Address(HERE, base), Probing(0.1)))

    asyncio.run(play_beside_front(tmp_path, scenario, settings=on_tcp(base)))


@pytest.mark.parametrize("name", GAME_NAMES)
def test_the_leaves_that_are_measured_with_are_leaves(name: str) -> None:
    game = get_game(name)
    frames = [memoryview(frame) for frame in empty_leaves(name, 0, 4)]  # type: ignore[arg-type]
    check_leaves(
        4,
        game.feature_words(game.history),
        game.actions,
        [frame.cast("B") if frame.ndim == 1 else memoryview(frame.tobytes()) for frame in frames],
        max_legal=game.max_legal,
        scalars=game.scalar_planes,
        mask_bytes=game.mask_bytes,
    )


def test_azserver_is_told_of_a_port_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.doctor.probe.ANSWER_SECONDS", 0.2)
    with socket.socket() as other:
        other.bind((HERE, 0))
        other.listen()
        settings = DoctorConfig(game="tic_tac_toe", net="tiny", runs=tmp_path, port=other.getsockname()[1])
        assert "ports" in faults(examine_server(settings))
    assert "ports" not in faults(examine_server(replace(settings, port=find_base_port(28_000))))
