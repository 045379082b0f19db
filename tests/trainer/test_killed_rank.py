"""A trainer of two ranks that loses one of them goes on from its checkpoint as if nothing had happened."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from fake_server import TIMEOUT, FakeServer, welcome
from free_ports import free_base_port
from process_marks import marked, marked_environment
from training_runs import games, stored

from azselfplay.host.exits import Exit

pytestmark = pytest.mark.nightly

STEPS = 600
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
        records = games(800)
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

    async def until_step(self, step: int) -> None:
        async with asyncio.timeout(TIMEOUT):
            while self.step() < step:  # noqa: ASYNC110 (no message comes with a checkpoint)
                await asyncio.sleep(0.02)

    async def until_all_steps(self) -> None:
        await self.server.until(lambda: "for the next step" in str(self.server.figures.get("waiting_for")))

    def files(self) -> list[Path]:
        return list((self.folder / "run-1" / "checkpoints").glob("*.safetensors"))

    def step(self) -> int:
        """Return the step of the last checkpoint."""
        return max((int(one.name[5:14]) for one in self.files()), default=0)

    def kill(self, rank: int, trainer: asyncio.subprocess.Process) -> None:
        """Kill a rank with SIGKILL: a process that torchrun or rank 0 has started, or else the trainer."""
        (pid,) = marked(self.environment, f"RANK={rank}") or [trainer.pid]
        os.kill(pid, signal.SIGKILL)


async def trained(
    how: tuple[str, ...], folder: Path, killed: tuple[int, ...] = ()
) -> tuple[dict[str, bytes], list[int], str]:
    """Return the checkpoints once there is nothing to train on any more, the exit codes and the log.
    `killed`: ranks to be killed, one after the other, each after some more steps."""
    one, codes = Trainers(how, folder), []
    try:
        process = await one.start()
        for rank in killed:
            await one.until_step(one.step() + STEPS // 10)
            one.kill(rank, process)
            lost_at = time.monotonic()
            codes.append(await asyncio.wait_for(process.wait(), TIMEOUT))
            ended_at, step = time.monotonic(), one.step()
            assert step < STEPS
            process = await one.start()
            await one.until_step(step + 1)
            print(
                f"rank {rank} lost at step {step}: all ended after {ended_at - lost_at:.1f} s, "
                f"next step after {time.monotonic() - lost_at:.1f} s"
            )
        await one.until_all_steps()
        assert f'device = "{how[-1]}"' in (folder / "run-1" / "trainer.toml").read_text(encoding="utf-8")
        process.terminate()
        codes.append(await asyncio.wait_for(process.wait(), TIMEOUT))
        log = (folder / "log").read_text(encoding="utf-8")
        return {file.name: file.read_bytes() for file in one.files()}, codes, log
    finally:
        one.server.close()
        for pid in marked(one.environment):
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("how", "codes_of_loss", "code_of_stop"),
    [(CHILDREN, [Exit.TRY_AGAIN, -signal.SIGKILL], Exit.OK), (TORCHRUN, [1, 1], 1)],
    ids=["children", "torchrun"],
)
def test_a_killed_rank_costs_the_steps_since_the_checkpoint_and_no_digit(
    how: tuple[str, ...], codes_of_loss: list[int], code_of_stop: int, tmp_path: Path
) -> None:
    """Rank 1 is killed, and then rank 0 of the next trainer. Each time the whole trainer ends, and the last
    one makes the same network as one without a kill. `pytest -s` shows how soon training goes on. Only
    torchrun has one exit status for everything, also for a clean stop."""
    wanted, codes, _ = asyncio.run(trained(how, tmp_path / "a"))
    assert codes == [code_of_stop]
    found, codes, log = asyncio.run(trained(how, tmp_path / "b", killed=(1, 0)))
    assert codes == [*codes_of_loss, code_of_stop]
    assert "and all other ranks with it; started again, the trainer goes on from the last checkpoint" in log
    last = max(wanted)
    assert found[last] == wanted[last]
    assert last == max(found)
