"""A trainer of several ranks makes the steps that one makes, and ends as a whole."""

import asyncio
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from in_process import ends
from training_runs import GAME, fill, stored

import net.gpu
from azselfplay.host.aio import Stop, first_cause
from azselfplay.host.exits import Exit, Fatal
from bench.random_games import random_game
from trainer import gang, ranks
from trainer.__main__ import load
from trainer.gang import TIMEOUT, Gang, digest
from trainer.ranks import Ranks, place_of
from trainer.training_loop import TrainingLoop

torch.set_num_threads(1)

FLAGS = [
    "--cpu-threads", "1", "--window.positions", "5000", "--samples.held-out", "0", "--optimizer.ema", "0.9",
    "--optimizer.batch", "33", "--loss.capped-value-weight", "0.25", "--optimizer.precision", "float32",
]  # fmt: skip
BOARD = [
    "--net", "1x8", "--loss.heads", "ownership:0.5",
    "--samples.wins-share", "0.2", "--optimizer.sync-norm",
]  # fmt: skip
SPARSE = ["--net", "sparse"]
STEPS = 20


Trained = tuple[TrainingLoop, list[float]]


def steps_of(folder: Path, flags: list[str], ranks: Ranks | None = None) -> Trained:
    """Return a loop after STEPS steps, with its figures and those of the network that plays. Some of its
    games were cut off, and some plies are no policy targets."""
    rng = np.random.default_rng(2)
    caps = (7 if n % 3 else 0 for n in range(100))
    records = [random_game(GAME, rng, simulations=20, targets=0.6, max_plies=cap) for cap in caps]
    folder.mkdir()
    config = place_of(load(flags, {}), {}).config
    one = TrainingLoop(config, GAME, 1, "tiny", folder, ranks)
    fill(one, stored(folder, records), len(records))
    for _ in range(STEPS):
        one.make_step()
    trained, samples = one._train_step.figures(), one._sampler.spread_over_last(one.window, 500, 200)
    assert trained is not None
    played = one._train_step.evaluate(samples)
    return one, [*trained[:-1], *trained.heads.values(), *played[:3], *played.heads.values()]


def of_two_ranks(folder: Path, flags: list[str], monkeypatch: pytest.MonkeyPatch) -> Trained:
    """Return the same for two ranks, of which the second is a process of its own."""
    flags = [*flags, "--device", "cpu,cpu"]
    monkeypatch.setattr(sys, "argv", ["trainer", *flags])
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "lo")

    async def main() -> Trained:
        both, over = Gang.of_children(place_of(load(flags, {}), {})), Stop()

        def train() -> Trained:
            found = steps_of(folder, flags, both)
            both.end()
            return found

        async with asyncio.TaskGroup() as group:
            group.create_task(both.run(over))
            found = await asyncio.to_thread(train)
            over.request()
        return found

    try:
        return asyncio.run(main())
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    "flags", [BOARD, pytest.param(SPARSE, marks=pytest.mark.nightly)], ids=["board", "sparse"]
)
def test_two_ranks_make_the_steps_of_one(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their parts differ in size, in rows and in everything that losses are divided by. Afterwards both ranks
    have the same weights, bit by bit."""
    flags = [*FLAGS, *flags]
    _, figures = steps_of(tmp_path / "1", [*flags, "--device", "cpu"])
    together, figures_of_two = of_two_ranks(tmp_path / "2", flags, monkeypatch)
    # Weights are not compared: Adam makes full steps even where a gradient is 0 but for rounding.
    assert figures_of_two == pytest.approx(figures, abs=1e-4)
    log = capfd.readouterr().err
    assert f"stopped at step {STEPS}, weights {digest(together._train_step.network)}" in log


def test_a_rank_waits_for_games_longer_than_for_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 may have none for hours, at its start and before any step. Here each limit is 3 seconds; really
    it is minutes, so that a rank that hangs is noticed."""
    limit, groups = timedelta(seconds=3), {}

    def join(_: str, *, store: dist.Store, rank: int, world_size: int, timeout: timedelta) -> None:
        assert timeout == TIMEOUT < timedelta(minutes=10)
        groups[rank] = dist.ProcessGroupGloo(store, rank, world_size, limit)

    def be_rank_0(gang: Gang) -> None:
        time.sleep(2 * limit.total_seconds())
        gang.broadcast_state(0, lambda: b"weights", {})
        time.sleep(2 * limit.total_seconds())
        gang.end()

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setattr(dist, "init_process_group", join)
    monkeypatch.setattr(dist, "isend", lambda part, rank: groups[0].send([part], rank, 0))
    monkeypatch.setattr(dist, "irecv", lambda part, rank: groups[1].recv([part], rank, 0))
    monkeypatch.setattr(dist, "recv", lambda part, rank: groups[1].recv([part], rank, 0).wait())
    of_0 = dist.TCPStore(gang.HERE, 0, None, True, limit, wait_for_workers=False)
    of_1 = dist.TCPStore(gang.HERE, of_0.port, None, False, limit)
    with ThreadPoolExecutor(1) as thread:
        rank_0, rank_1 = thread.submit(be_rank_0, a_gang(0, of_0)), a_gang(1, of_1)
        assert rank_1.receive_state()["weights"] == b"weights"
        assert rank_1.recv() == b""
        rank_0.result()


def a_gang(rank: int, store: Any = None, flags: tuple[str, ...] = ()) -> Gang:
    """Return the gang as one of two ranks that torchrun has started."""
    started = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": f"{rank}", "LOCAL_RANK": f"{rank}"}
    return Gang(place_of(load(["--device", "cpu", *flags], {}), started), store or dist.HashStore())


@pytest.mark.parametrize(
    ("flags", "torch_version", "code", "text"),
    [
        (("--optimizer.lr", "0.5"), "", Exit.CONFIG, r"--optimizer.lr is 0.001 at rank 1, and 0.5 at rank 0"),
        ((), "1.0", Exit.PROTOCOL, r"torch is .* at rank 1, and 1.0 at rank 0: .* same versions"),
    ],
)
def test_a_rank_of_other_settings_or_another_version_ends(
    flags: tuple[str, ...], torch_version: str, code: Exit, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = dist.HashStore()
    rank_0 = a_gang(0, store, flags)
    monkeypatch.setattr(rank_0, "_init_process_group", lambda: 1 / 0)
    with monkeypatch.context() as other:
        other.setattr(torch, "__version__", torch_version or torch.__version__)
        with pytest.raises(ZeroDivisionError):
            rank_0.broadcast_state(0, bytes, {})
    with ends(code, text):
        a_gang(1, store).receive_state()


@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        (
            "kill -9 $$",
            Exit.TRY_AGAIN,
            r"rank 1 has ended \(killed by SIGKILL\), .* from the last checkpoint",
        ),
        (
            "echo 'error: no GPU'; exit 75",
            Exit.TRY_AGAIN,
            r"rank 1 has ended \(exit 75 .*: no GPU\), and all",
        ),
        ("echo 'error: it is wrong'; exit 78", Exit.CONFIG, "rank 1: it is wrong"),
    ],
)
def test_a_rank_that_ends_ends_the_trainer_with_a_sentence(
    script: str, code: Exit, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang, "python_module", lambda *_: ["sh", "-c", script])
    one = Gang(place_of(load(["--device", "cpu,cpu"], {}), {}), dist.HashStore(), {})
    with pytest.raises(BaseExceptionGroup) as caught:
        asyncio.run(one.run(Stop()))
    fatal = first_cause(caught.value)
    assert isinstance(fatal, Fatal)
    assert fatal.code == code
    assert re.match(text, str(fatal))


@pytest.mark.parametrize(
    ("device", "started", "text"),
    [
        ("cpu,cpu,cpu", {}, "3 ranks cannot share a batch of 2 positions"),
        ("cpu", {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}, "3 ranks cannot share a batch"),
        ("cuda:0,cuda:1", {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}, "torchrun has started 3 ranks"),
        ("cuda:1", {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, "torchrun has started 2 ranks"),
        ("cpu,cuda:0", {}, "either GPUs, or cpu"),
    ],
)
def test_devices_that_not_every_rank_can_have_are_named(
    device: str, started: dict[str, str], text: str
) -> None:
    environment = {"RANK": "0", "LOCAL_RANK": "0", **started}
    with ends(Exit.CONFIG, text):
        place_of(load(["--device", device, "--optimizer.batch", "2"], {}), environment)


def test_the_reason_of_nccl_is_told() -> None:
    where = "NCCL error in: /torch/NCCL.cpp:3356, unhandled system error, NCCL version 2.27.5"
    text = f"{where}\nncclSystemError: System call failed. \nLast error:\nno room in /dev/shm (size 96)\n"
    told = r"\(NCCL error in: .* 2\.27\.5: no room in /dev/shm \(size 96\)\), and"
    with pytest.raises(Fatal, match=told), gang.as_lost_rank():
        raise dist.DistBackendError(text)


def test_each_rank_has_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def devices(device: str) -> list[str]:
        config, two = load(["--device", device], {}), {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        places = [place_of(config, {**two, "RANK": f"{n}", "LOCAL_RANK": f"{n}"}) for n in range(2)]
        return [place.config.device for place in places]

    assert devices("cuda") == ["cuda:0", "cuda:1"]
    assert devices("cuda:3,cuda:1") == ["cuda:3", "cuda:1"]
    monkeypatch.setattr(net.gpu, "count_found", lambda: 0)
    for driver, made_for in ((False, "13.0"), (True, None)):
        monkeypatch.setattr(net.gpu, "may_have_gpus", lambda _, driver=driver: driver)
        monkeypatch.setattr(torch.version, "cuda", made_for)
        assert devices("auto") == devices("cpu") == devices("cpu,cpu") == ["cpu", "cpu"]
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert devices("auto") == ["cuda:0", "cuda:1"]
    for other in ({"WORLD_SIZE": "4", "RANK": "3"}, dict.fromkeys(ranks.STARTED, "1")):
        alone = place_of(load(["--device", "auto"], {}), other)
        assert (alone.rank, alone.ranks, alone.config.device) == (0, 1, "auto")
