"""A worker whose run has a sparse network plays with it in its own search, without torch."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from changed_settings import self_play
from client_server import WELCOME, info_of
from in_process import ends
from worker_site import run_site

from azselfplay.host.aio import Stop, run
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.metrics import Monitor
from azselfplay.host.ports import Address
from client.config import ClientConfig, Plan, make_plan
from client.main import Supervisor, supervise
from client.metrics import SEARCH, figures_line
from client.warm import is_same_run, read_welcome
from protocol.messages import Ping, WeightsInfo, Welcome

SETTINGS = asdict(self_play(simulations=4, seed=3, history=1, max_plies=8))


async def play(folder: Path) -> dict[str, Any]:
    """Play some games with the weights in `folder`/weights, announced as version 5. Returns what the server
    saw, and whether this process has imported torch."""
    data = (folder / "weights").read_bytes()
    info = info_of(data, 5, hashlib.sha256(data).digest())
    info = WeightsInfo(5, 50, info.sha256, info.size, "chess", "sparse")

    async with run_site(folder, games=4) as site:
        site.close()
        run = {"game": "chess", "self_play": SETTINGS, "network": "small", "games_in_flight": 0}
        site.serve(**run, weights=info)
        site.bulk.weights = data
        for _ in range(3):
            await site.games.get()
        await site.bulk.until(Ping)
        site.bulk.seen = [one for one in site.bulk.seen if not isinstance(one, Ping)]
        await site.bulk.until(Ping)
    return {
        "has_torch": "torch" in sys.modules,
        "leaves": len(site.leaves.seen),
        "versions": sorted({int(one) for record in site.bulk.records for one in record.versions}),
        "evaluations": max(one.evaluations for one in site.bulk.seen if isinstance(one, Ping)),
        "plies": sum(record.plies for record in site.bulk.records),
    }


def test_it_imports_no_torch_sends_no_leaf_and_tells_its_evaluations(tmp_path: Path) -> None:
    """Records carry the announced version, not that of the file."""
    from net.create import create

    create("chess", 1, "sparse", 0, tmp_path / "weights")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(tmp_path)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout.splitlines()[-1])
    assert (seen["has_torch"], seen["leaves"], seen["versions"]) == (False, 0, [5])
    assert seen["plies"] > 0
    assert seen["evaluations"] > seen["plies"]


def welcome(**changed: Any) -> Welcome:
    return Welcome(**{**WELCOME, "game": "chess", "self_play": SETTINGS, **changed})


def weights_of(architecture: str) -> WeightsInfo:
    return WeightsInfo(1, 1, bytes(32), 1, "chess", architecture)


@pytest.mark.parametrize(
    ("changed", "network"),
    [
        ({"network": "sparse"}, "sparse256"),
        ({"network": "sparse", "weights": weights_of("sparse256")}, "sparse256"),
        ({"network": "small", "weights": weights_of("sparse512")}, "sparse512"),
        ({"network": "sparse", "weights": weights_of("4x64")}, ""),
        ({"network": "a newer kind"}, ""),
        ({}, ""),
    ],
)
def test_the_network_is_that_of_the_weights_else_that_of_the_run(changed: dict, network: str) -> None:
    asked = read_welcome(welcome(**changed))
    assert asked.network == network
    assert is_same_run(asked, welcome(**changed))
    assert is_same_run(asked, welcome(network="sparse")) == (network == "sparse256")


def test_a_game_without_features_ends_the_worker_with_a_sentence() -> None:
    without = welcome(game="go_9x9", self_play=asdict(self_play(history=1)), network="sparse")
    with ends(Exit.PROTOCOL, "go_9x9 has no sparse features"):
        read_welcome(without)


def test_a_setting_that_only_the_server_knows_ends_worker_and_trainer_with_a_sentence() -> None:
    """Such as one of a later version: games without it would be games of another run."""
    from trainer.run_setup import settings_of  # imports torch, which the process above must not

    newer = welcome(self_play={**SETTINGS, "search": {**SETTINGS["search"], "depth": 3}})
    for read in (read_welcome, settings_of):
        with ends(Exit.PROTOCOL, r"'search\.depth' is no setting of this version"):
            read(newer)


@pytest.mark.parametrize(("workers", "expected"), [(0, 4), (3, 3)])
def test_azclient_starts_a_worker_on_each_core_where_the_network_is_in_the_search(
    workers: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds on a machine with GPUs, too; the worker that joins first reports where the network is."""
    config = ClientConfig("x", workers=workers)
    plan = make_plan(config, Address("127.0.0.1", 5600), Path("s"), gpus=2, cores=4, has_torch=True)
    supervisor = Supervisor(plan, Stop())
    started: list[list[str]] = []
    monkeypatch.setattr(supervisor._children, "add", lambda _name, argv, **_: started.append(argv))
    supervisor._search = ["chess", "puct", "a network"]
    supervisor._on_prepared(0)
    assert len(started) == expected
    assert not any("--rings" in argv or "client.evaluator" in argv for argv in started)
    assert supervisor._figures.expected == expected


def test_azclient_prepares_again_when_its_workers_join_a_run_with_another_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is after the server began another run. Its workers change with it, and --max-wait is over."""
    before, after = (figures_line({SEARCH: ["chess", "puct", code]}) for code in ("a network", ""))
    server, said = tmp_path / "server", asyncio.Queue[bytes]()
    server.write_text(before)
    tell = f"import sys; print(open({str(server)!r}).read(), sys.argv[1:], sep='\\n', flush=True); "
    switch = f"open({str(server)!r}, 'w').write({after!r}); "

    def python(code: str, *flags: str) -> list[str]:
        return [sys.executable, "-S", "-c", code, *flags]

    wait = "import signal; signal.pause()"
    plan = Plan(python(tell), [], [python(tell + wait, "own")], "", [python(switch + tell + wait, "search")])
    monkeypatch.setattr("client.main.to_stderr", said.put_nowait)
    seen: list[str] = []

    async def main(stop: Stop) -> None:
        with Monitor("127.0.0.1", 0) as monitor:
            async with asyncio.timeout(240), asyncio.TaskGroup() as group:
                group.create_task(supervise(plan, stop, 0.0, monitor, tmp_path))
                while "own" not in "".join(seen):
                    seen.append((await said.get()).decode())
                stop.request()

    run(main)
    # The worker that changes the server's run may be ended before its line is read.
    assert [line for line in seen if "search" not in line] == ["[]\n", "['--max-wait', '0']\n", "['own']\n"]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(Path(sys.argv[1])))))


@pytest.mark.parametrize(
    ("ends", "code"),
    [([Exit.DISK], Exit.DISK), ([None, Exit.INTERNAL, Exit.TRY_AGAIN, None, Exit.CONFIG], Exit.CONFIG)],
    ids=["at first", "later"],
)
async def test_only_the_first_preparation_ends_azclient_for_a_reason_that_may_pass(
    ends: list[Exit | None], code: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(ends)

    async def run(*_: object) -> None:
        if (end := left.pop(0)) is not None:
            raise Fatal("it failed", end)

    monkeypatch.setattr(Supervisor, "run", run)
    monkeypatch.setattr("client.main.BACKOFF_LONGEST", 0.0)

    with pytest.raises(Fatal) as caught, Monitor("127.0.0.1", 0) as monitor:
        await supervise(Plan([], [], [], "", []), Stop(), 0.0, monitor, tmp_path)
    assert (caught.value.code, left) == (code, [])
