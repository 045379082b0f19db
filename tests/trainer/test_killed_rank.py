"""A trainer of two ranks that loses one goes on from its checkpoint as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from fake_server import TIMEOUT, FakeServer, welcome
from free_ports import free_base_port
from process_marks import marked, marked_environment
from training_runs import games, stored

from azselfplay.host.exits import Exit

pytestmark = pytest.mark.nightly

STEPS = 300
FLAGS = (
    "--cpu-threads", "1", "--optimizer.batch", "32", "--samples.per-position", "4", "--samples.held-out", "0",
    "--window.min-positions", "50", "--publishing.steps", "100000", "--publishing.seconds", "1",
    "--publishing.checkpoint-seconds", "0",
)  # fmt: skip
CHILDREN = ("-m", "trainer", "--device", "cpu,cpu")
TORCHRUN = (
    *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=0"),
    *("-m", "trainer", "--device", "cpu"),
)


class Trainers:
    """Trainers of one run, one after the other, on a store that does not change."""

    def __init__(self, how: tuple[str, ...], folder: Path) -> None:
        self._how, self.folder, self._port = how, folder, free_base_port()
        self.server = FakeServer(self._port, welcome())
        self.environment = marked_environment()
        (folder / "run-1").mkdir(parents=True)
        records = games(400)
        stored(folder / "run-1", records)
        positions = sum(record.targets for record in records)
        assert positions * 4 // 32 >= STEPS, "more steps must be allowed"

    async def start(self) -> asyncio.subprocess.Process:
        self.server.trainer, self.server.figures = b"", {}
        with (self.folder / "log").open("a", encoding="utf-8") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, *self._how, "--server", f"127.0.0.1:{self._port}"),
                *("--runs", str(self.folder), *FLAGS),
                stderr=log,
                env=self.environment,
            )

    async def until_all_steps(self) -> None:
        await self.server.until(lambda: "for the next step" in str(self.server.figures.get("waiting_for")))

    def checkpoints(self) -> dict[str, bytes]:
        return {
            one.name: one.read_bytes()
            for one in (self.folder / "run-1" / "checkpoints").glob("*.safetensors")
        }

    def kill_a_rank(self) -> None:
        """Kill rank 1 with SIGKILL."""
        (pid,) = (
            pid
            for pid in marked(self.environment)
            if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
        )
        os.kill(pid, signal.SIGKILL)


async def trained(
    how: tuple[str, ...], folder: Path, *, killed: bool
) -> tuple[dict[str, bytes], list[int], str]:
    """Return the checkpoints once there is nothing to train on any more, the exit codes and the log."""
    one, codes = Trainers(how, folder), []
    try:
        process = await one.start()
        if killed:
            await one.server.until(lambda: one.server.offers)
            one.kill_a_rank()
            codes.append(await asyncio.wait_for(process.wait(), TIMEOUT))
            assert 0 < max(int(name[5:14]) for name in one.checkpoints()) < STEPS
            process = await one.start()
        await one.until_all_steps()
        process.terminate()
        codes.append(await asyncio.wait_for(process.wait(), TIMEOUT))
        return one.checkpoints(), codes, (folder / "log").read_text(encoding="utf-8")
    finally:
        one.server.close()
        for pid in marked(one.environment):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("how", "code_of_loss", "code_of_stop"),
    [(CHILDREN, Exit.TRY_AGAIN, Exit.OK), (TORCHRUN, 1, 1)],
    ids=["children", "torchrun"],
)
def test_a_killed_rank_costs_the_steps_since_the_checkpoint_and_no_digit(
    how: tuple[str, ...], code_of_loss: int, code_of_stop: int, tmp_path: Path
) -> None:
    """The whole trainer ends with a sentence; the next one makes the same network as one without the kill.
    Only torchrun has one exit status for everything, also for a clean stop."""
    wanted, codes, _ = asyncio.run(trained(how, tmp_path / "a", killed=False))
    assert codes == [code_of_stop]
    found, codes, log = asyncio.run(trained(how, tmp_path / "b", killed=True))
    assert codes == [code_of_loss, code_of_stop]
    assert "and all other ranks with it; started again, the trainer goes on from the last checkpoint" in log
    last = max(wanted)
    assert found[last] == wanted[last]
    assert last == max(found)
