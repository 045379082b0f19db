"""doctor and status as commands, on a real azserver: their output and exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from foreign_client import Client
from free_ports import free_base_port

from azselfplay.host.exits import Exit

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 400.0
MODULES = {"azserver": "server.main", "azclient": "client.main", "azplay": "azselfplay.lab.azplay"}

pytestmark = pytest.mark.timeout(1200)


def call(name: str, *words: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Return exit status, the JSON that was printed, and errors."""
    done = subprocess.run(
        [sys.executable, "-m", MODULES[name], *words],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        cwd=ROOT,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {}, done.stderr


def faults(said: dict[str, Any]) -> set[str]:
    """Return the checks with a fault, except those that depend on the load of this machine."""
    found = {one["check"] for one in said["findings"] if one["level"] == "fault"}
    return found - {"memory", "disk"}


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    """Return flags of a small azserver and of its doctor."""
    port = free_base_port()
    return [
        *("--game", "tic_tac_toe", "--net", "tiny", "--gpus", "cpu", "--workers", "0"),
        *("--port", str(port), "--runs", str(tmp_path / "runs"), "--cpu-threads", "1"),
    ]


@pytest.fixture
def server(settings: list[str], tmp_path: Path) -> Iterator[str]:
    """Yield its address, once an evaluator is up."""
    port = settings[settings.index("--port") + 1]
    address = f"127.0.0.1:{port}"
    with (tmp_path / "server.log").open("wb") as log:
        argv = [sys.executable, "-m", "server.main", *settings]
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=ROOT)
    try:
        watcher, deadline = Client("127.0.0.1", int(port), PATIENCE), time.monotonic() + PATIENCE
        while not watcher.status(watcher.bulk)["evaluators"]:
            assert time.monotonic() < deadline, (tmp_path / "server.log").read_text()
            time.sleep(0.2)
        watcher.close()
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_doctors_and_status_find_a_running_server_well(
    server: str, settings: list[str], tmp_path: Path
) -> None:
    spool = ["--spool", str(tmp_path / "spool"), "--json"]
    code, said, errors = call("azclient", "doctor", server, "--run", "tic_tac_toe-tiny", *spool)
    assert (faults(said), errors) == (set(), "")
    assert code == (Exit.FOUND if said["fault"] else Exit.OK)
    measured = next(one["found"] for one in said["findings"] if one["check"] == "throughput")
    assert re.match(r"[\d,]+ evaluations a second", measured)
    code, said, _ = call("azserver", "doctor", *settings, "--seconds", "0", "--json")
    assert faults(said) == set()
    assert any("an azserver works on it" in one["found"] for one in said["findings"])
    code, said, _ = call("azplay", "status", "tic_tac_toe-tiny", "--runs", str(tmp_path / "runs"), "--json")
    assert (code, said["live"], said["figures"]["game"]) == (Exit.OK, True, "tic_tac_toe")
    code, said, _ = call("azplay", "status", "--server", server, "--json")
    assert (code, said["figures"]["evaluators"]) == (Exit.OK, 1)
    code, said, _ = call("azclient", "doctor", server, "--game", "chess", "--seconds", "0", *spool)
    assert (code, faults(said)) == (Exit.FOUND, {"game"})


def test_faults_of_the_machine_end_in_their_own_exit_status(settings: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = [*settings, "--seconds", "0", "--json"]
    code, said, _ = call("azserver", "doctor", *words, AZ_JIT_CACHE=str(tmp_path / "file" / "jit"))
    assert (code, faults(said)) == (Exit.FOUND, {"compiled code"})
    limited = ["bash", "-c", 'ulimit -n 200 && exec "$0" "$@"', sys.executable, "-m", "server.main", "doctor"]
    done = subprocess.run([*limited, *words], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, faults(json.loads(done.stdout))) == (Exit.FOUND, {"open files"})
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_server_that_is_not_there_is_a_fault_and_unreachable(settings: list[str], tmp_path: Path) -> None:
    address = f"127.0.0.1:{settings[settings.index('--port') + 1]}"
    code, said, _ = call("azclient", "doctor", address, "--spool", str(tmp_path), "--json")
    assert (code, faults(said)) == (Exit.FOUND, {"leaves and bulk ports"})
    code, _, errors = call("azplay", "status", "--server", address)
    assert code == Exit.UNREACHABLE
    assert "start azserver" in errors


def test_status_of_a_folder_tells_what_its_trainer_left_and_alerts(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"format": 5, "game": "go", "history": 1}))
    words = ("azplay", "status", str(folder), "--json")
    lines = '{"trainer/games": 7.0, "search/kl": 0.5, "alerts": ["memorising: x"]}\n{"trainer/ga'
    (folder / "figures.jsonl").write_text(lines)
    code, said, _ = call(*words)
    assert (code, said["alerts"], said["live"]) == (Exit.FOUND, ["memorising: x"], False)
    assert said["figures"]["trainer"]["games"] == 7
    (folder / "figures.json").write_text(json.dumps({"games": 9, "alerts": []}))
    code, said, _ = call(*words)
    assert (code, said["alerts"], said["figures"]["trainer"]["games"]) == (Exit.OK, [], 9)
    code, _, errors = call("azplay", "status", str(tmp_path), "--json")
    assert code == Exit.BAD_DATA
    assert "there is no run" in errors


def test_every_check_is_on_the_page() -> None:
    """They are found by the words with which the code begins a finding."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    sources = [*ROOT.glob("azselfplay/diagnostics/doctor/*.py"), *ROOT.glob("*/*doctor.py")]
    found = {
        name
        for path in sources
        for name in re.findall(r'\b(?:ok|warning|fault)\(\s*"([^"]+)"', path.read_text())
    }
    assert {"compiled code", "clock", "games", "ports", "spool"} <= found
    assert [name for name in found if f"`{name}`" not in page] == []
