"""`azcluster up` runs real programs here, and on a Ray cluster of simulated nodes, one of which is killed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from free_ports import free_base_port
from process_marks import wait_for

from azselfplay.host.config import to_toml
from azselfplay.host.exits import Exit

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
AT_MOST = 60.0
"""Seconds until the trainer of a dead node must run elsewhere."""


class Command:
    """Runs azcluster with a file of its own: server and client on place a, the trainer on b or else c."""

    def __init__(self, folder: Path, on: str) -> None:
        self.runs = folder / "runs"
        run = {"game": "tic_tac_toe", "net": "tiny", "runs": self.runs, "port": free_base_port()}
        places = {name: {"host": "127.0.0.1"} for name in "abc"}
        one = {"run": {"name": "r", **run}, "places": places}
        text = to_toml(one) + (
            '[server]\nplaces = ["a"]\ncpus = 1\nsettings.self_play.search.simulations = 4\n'
            '[trainer]\nplaces = ["b", "c"]\ncpus = 1\nsettings.window.min_positions = 200\n'
            "settings.publishing.checkpoint_seconds = 1.0\n"
            '[[clients]]\nplaces = ["a"]\ncpus = 1\nsettings = {workers = 1, games = 16, drain = 0.0}\n'
        )
        self.file, self.on = folder / "cluster.toml", on
        self.file.write_text(text)

    def words(self, command: str) -> list[str]:
        return [sys.executable, "-m", "azselfplay.lab.azcluster", command, str(self.file), "--on", self.on]

    def __call__(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(command), cwd=ROOT, capture_output=True, text=True, check=False)

    def step(self) -> int:
        """Return the training step that the server reports; 0 while it reports none."""
        line = next((one for one in self("status").stdout.splitlines() if one.startswith("step ")), "step 0")
        word = line.split()[1].replace(",", "")
        return int(word) if word.isdigit() else 0


def test_up_here_trains_and_down_ends_it_in_order(tmp_path: Path) -> None:
    azcluster = Command(tmp_path, "local")
    up = subprocess.Popen(azcluster.words("up"), cwd=ROOT, stdout=-1, stderr=-1, text=True)
    try:
        wait_for(lambda: azcluster.step() > 0, lambda: "a step of training")
        assert azcluster("up").returncode == Exit.TRY_AGAIN
        assert azcluster("down").returncode == Exit.OK
        said, told = up.communicate(timeout=60)
    finally:
        up.kill()
    assert up.returncode == Exit.OK
    assert json.loads(said.splitlines()[-1])["steps"] > 0, "a script reads the last line"
    assert "The newest weights are version" in told
    assert azcluster("down").returncode == Exit.UNREACHABLE


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[object, dict[str, object]]]:
    """Yield a Ray cluster with a head and a node for each place."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'azselfplay[ray]'")
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 * 2**20}
    cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False, **small})
    found = {name: cluster.add_node(num_cpus=4, labels={"place": name}, **small) for name in "abc"}
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    yield cluster, found
    cluster.shutdown()


def state(azcluster: Command, part: str) -> list[str]:
    """Return [place, process id, state] of a part."""
    lines = [line.split() for line in azcluster("status").stdout.splitlines()]
    return next((words[1:] for words in lines if words[:1] == [part]), [])


def test_on_ray_a_killed_process_starts_again_and_the_trainer_of_a_dead_node_runs_elsewhere(
    nodes: tuple[object, dict[str, object]], tmp_path: Path
) -> None:
    cluster, of_places = nodes
    azcluster = Command(tmp_path, "ray")
    assert azcluster("up").returncode == Exit.OK
    assert azcluster("up").returncode == Exit.TRY_AGAIN
    wait_for(lambda: azcluster.step() > 0, lambda: "a step of training")

    place, player, _ = state(azcluster, "client-a")
    assert place == "a"
    os.kill(int(player), 9)
    wait_for(
        lambda: state(azcluster, "client-a")[2:] == ["runs"] and state(azcluster, "client-a")[1] != player,
        lambda: "the client again",
    )

    assert state(azcluster, "trainer")[0] == "b"
    cluster.remove_node(of_places["b"], allow_graceful=False)  # type: ignore[attr-defined]
    wait_for(lambda: state(azcluster, "trainer")[::2] == ["c", "runs"], lambda: "the trainer on c", AT_MOST)
    before = azcluster.step()
    wait_for(lambda: azcluster.step() > before, lambda: "further steps")
    assert azcluster("down").returncode == Exit.OK
    assert azcluster("status").returncode == Exit.UNREACHABLE
