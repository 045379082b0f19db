"""The doctor queries real ports, of a real front or of something else that listens."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from client_server import FakeServer
from doctor_faults import FIGURES, faults
from free_ports import free_base_port
from front_bench import running_front
from locked_door import CLIENT, SERVER, STRANGER, locked_door
from msgspec import structs

from azselfplay.diagnostics.doctor.findings import Finding, Level
from azselfplay.diagnostics.doctor.probe import probe
from azselfplay.diagnostics.doctor.service import service_findings
from azselfplay.host.exits import EXTRAS, Exit, Fatal
from azselfplay.host.ports import Address, parse_address
from azselfplay.lab.report.status_command import of_server
from azselfplay.link.sockets import new_context
from client.doctor import DoctorConfig as ClientDoctor
from client.doctor import examine
from protocol.keys import DialKeys
from server.doctor import free_ports
from server.front import FrontSettings

HERE = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def beside_server() -> AsyncIterator[tuple[Address, list[FakeServer]]]:
    """Give the address of something that listens on both ports."""
    context, base = new_context(), free_base_port()
    servers = [FakeServer(context, f"tcp://{HERE}:{base + offset}") for offset in (0, 1)]
    for server in servers:
        server.figures = FIGURES
    try:
        async with asyncio.timeout(240):
            yield Address(HERE, base), servers
    finally:
        for server in servers:
            server.close()
        context.destroy(0)


async def looked_at(address: Address, *how: Any) -> list[Finding]:
    """Return the findings about a server that is probed with the arguments `how`."""
    return service_findings(await asyncio.to_thread(probe, address, *how))


def test_closed_ports_are_found(tmp_path: Path) -> None:
    settings = ClientDoctor(f"{HERE}:{free_base_port()}", spool=tmp_path)
    assert "leaves and bulk ports" in faults(examine(settings))
    assert "device" not in faults(examine(settings))
    assert "device" in faults(examine(replace(settings, device="gpu")))


async def test_another_run_a_game_that_is_not_here_a_wrong_clock_and_other_software_are_found(
    tmp_path,
) -> None:
    async with beside_server() as (address, servers):
        settings = ClientDoctor(f"{HERE}:{address.port}", spool=tmp_path)
        assert "game" not in faults(await asyncio.to_thread(examine, settings))
        for server in servers:
            server.welcome = structs.replace(server.welcome, game="checkers")
            server.figures = {**FIGURES, "time": 1e9}
        assert "game" in faults(await asyncio.to_thread(examine, settings))
        findings = await looked_at(address, "mine", "chess")
        assert faults(findings) == {"run", "game", "clock"}
        assert faults(findings, Level.WARNING) == {"version"}


def test_azclients_doctor_needs_none_of_the_extras(tmp_path: Path) -> None:
    words = [f"{HERE}:{free_base_port()}", "--spool", str(tmp_path), "--json"]
    code = f"import sys; from client.doctor import main; main({words}); print('loaded', *sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert said.returncode == 0, said.stderr
    loaded = said.stdout.rpartition("loaded ")[2].split()
    assert "zmq" in loaded
    assert [package for package in EXTRAS["train"] if package in loaded] == []


def test_a_port_where_something_else_listens_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azselfplay.diagnostics.doctor.probe.ANSWER_SECONDS", 0.5)
    with socket.socket() as other:
        base = free_base_port()  # whose next port is free, too
        other.bind((HERE, base))
        other.listen()
        facts = probe(Address(HERE, base))
        assert facts.ports[0].answer is None
        assert facts.ports[0].unreachable == ""
        assert "leaves port" in faults(service_findings(facts))
        assert faults(free_ports(facts, Address(HERE, 1))) == {"ports"}


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (None, "it asks for a key; run `azclient keygen` here"),
        (DialKeys(STRANGER.public, CLIENT), "--server-key is not the key of this server; give"),
        (DialKeys(SERVER.public, STRANGER), "it does not allow this key .*; on its machine, run"),
    ],
)
async def test_a_mistake_with_keys_is_told_as_azclient_tells_it(keys: DialKeys | None, reason: str) -> None:
    async with locked_door() as locked:
        address = replace(parse_address(locked.endpoint.removeprefix("tcp://")), keys=keys)
        with pytest.raises(Fatal, match=f"does not let this process in: {reason}") as refused:
            await asyncio.to_thread(of_server, address)
        assert refused.value.code is Exit.REFUSED


def on_tcp(base: int) -> Callable[[FrontSettings], FrontSettings]:
    """Return a change of settings that makes a front listen at two TCP ports, too."""

    def changed(usual: FrontSettings) -> FrontSettings:
        leaves, bulk = (f"tcp://{HERE}:{base + offset}" for offset in (0, 1))
        return replace(usual, leaves=(*usual.leaves, leaves), bulk=(*usual.bulk, bulk))

    return changed


async def test_a_real_front_without_an_evaluator_is_a_fault_and_with_one_is_none(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("azselfplay.diagnostics.doctor.service.STARTING_SECONDS", 0.0)
    base = free_base_port()
    async with running_front(tmp_path, settings=on_tcp(base)) as bench:
        findings = await looked_at(Address(HERE, base))
        assert faults(findings) == {"evaluators"}
        assert faults(findings, Level.WARNING) == {"trainer"}
        await bench.evaluator()
        facts = await asyncio.to_thread(probe, Address(HERE, base))
        assert faults(service_findings(facts)) == set()
        assert facts.clock_ahead is not None
        assert abs(facts.clock_ahead) < 60
        assert bench.front.figures.protocol_errors == bench.front.figures.over_credit == 0


@pytest.mark.parametrize("name", ["nohost.invalid", "no..host"])
def test_a_name_without_an_address_is_to_be_checked_and_no_fault_of_a_port(name: str) -> None:
    facts = probe(Address(name, 5600))
    (found,) = service_findings(facts)
    assert found.check == "address"
    assert found.todo.startswith("check the name")
    assert name in found.found
