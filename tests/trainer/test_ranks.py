"""A trainer of several ranks makes the steps that one makes, and ends as a whole."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from training_runs import GAME, fill, stored

from azselfplay.host.aio import Stop, first_cause
from azselfplay.host.exits import Exit, Fatal
from bench.random_games import random_game
from trainer import gang, ranks
from trainer.__main__ import load
from trainer.gang import FOREVER, TIMEOUT, Gang, digest
from trainer.ranks import Ranks, place_of
from trainer.training_loop import TrainingLoop

torch.set_num_threads(1)

FLAGS = [
    *(
        "--cpu-threads",
        "1",
        "--window.positions",
        "5000",
        "--samples.held-out",
        "0",
        "--optimizer.ema",
        "0.9",
    ),
    *("--optimizer.batch", "33", "--loss.capped-value-weight", "0.25", "--optimizer.precision", "float32"),
]
BOARD = [
    *(
        "--net",
        "1x8",
        "--loss.heads",
        "moves_left:0.1,soft_policy:1,reply:0.15",
        "--samples.wins-share",
        "0.2",
    ),
    "--optimizer.sync-norm",
]
SPARSE = ["--net", "sparse"]
STEPS = 20


Trained = tuple[TrainingLoop, list[float]]


def steps_of(folder: Path, flags: list[str], ranks: Ranks | None = None) -> Trained:
    """Return what was trained for STEPS steps on games of which some were cut off and some plies are no
    policy targets, with its figures, and those of the network that plays."""
    rng = np.random.default_rng(2)
    records = [
        random_game(GAME, rng, simulations=20, targets=0.6, max_plies=7 if n % 3 else 0) for n in range(100)
    ]
    folder.mkdir()
    config = place_of(load(flags, {}), {}).config
    one = TrainingLoop(config, GAME, 1, "tiny", folder, ranks)
    fill(one, stored(folder, records), len(records))
    for _ in range(STEPS):
        one.make_step()
    trained, samples = one._train_step.figures(), one._sampler.newest(one.window, 500, 200)
    assert trained is not None
    played = one._train_step.evaluate(samples)
    return one, [*trained[:-1], *trained.heads.values(), *played[:3], *played.heads.values()]


def of_two_ranks(
    folder: Path, flags: list[str], monkeypatch: pytest.MonkeyPatch, pause: float = 0.0
) -> Trained:
    """Return the same of two ranks, the second one a process of its own. `pause`: seconds without a step."""
    flags = [*flags, "--device", "cpu,cpu"]
    monkeypatch.setattr(sys, "argv", ["trainer", *flags])
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "lo")

    async def main() -> Trained:
        both, over = Gang.of_children(place_of(load(flags, {}), {})), Stop()

        def train() -> Trained:
            found = steps_of(folder, flags, both)
            time.sleep(pause)
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
    """With parts of different size, in rows and in everything that losses are divided by. Both ranks have the
    same weights then, bit by bit."""
    flags = [*FLAGS, *flags]
    _, figures = steps_of(tmp_path / "1", [*flags, "--device", "cpu"])
    together, figures_of_two = of_two_ranks(tmp_path / "2", flags, monkeypatch)
    # Not the weights: Adam makes steps of full length of a gradient that is 0 but for rounding.
    assert figures_of_two == pytest.approx(figures, abs=1e-4)
    log = capfd.readouterr().err
    assert f"stopped at step {STEPS}, weights {digest(together._train_step.network)}" in log


@pytest.mark.nightly
def test_a_rank_waits_for_games_longer_than_for_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The other rank gives up after a second wherever a wait has a limit."""
    impatient = (
        "import datetime; from trainer import __main__, gang;"
        "gang.TIMEOUT = datetime.timedelta(seconds=1); __main__._main()"
    )
    monkeypatch.setattr(gang, "python_module", lambda _, *flags: [sys.executable, "-c", impatient, *flags])
    of_two_ranks(tmp_path / "run", [*FLAGS, *SPARSE], monkeypatch, pause=5.0)
    assert f"stopped at step {STEPS}" in capfd.readouterr().err


def test_only_the_wait_for_rows_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 may have none to give for hours; whoever takes part in a step has five minutes."""
    limits = []

    class Coming:
        def wait(self, limit: timedelta) -> None:
            limits.append(limit)

    monkeypatch.setattr(dist, "irecv", lambda *_: Coming())
    assert a_gang(1).received() == b""
    monkeypatch.setattr(dist, "init_process_group", lambda *_, timeout, **__: limits.append(timeout))
    a_gang(1)._join()
    assert limits == [FOREVER, TIMEOUT]
    assert FOREVER > timedelta(days=365) > timedelta(minutes=10) > TIMEOUT


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
    monkeypatch.setattr(rank_0, "_join", lambda: 1 / 0)
    with monkeypatch.context() as other:
        other.setattr(torch, "__version__", torch_version or torch.__version__)
        with pytest.raises(ZeroDivisionError):
            rank_0.begin(0, bytes, {})
    with pytest.raises(Fatal, match=text) as caught:
        a_gang(1, store).joined_rank_0()
    assert caught.value.code == code


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
        ("cuda:0,cuda:0", {}, "each named once"),
        ("cpu,cuda:0", {}, "each named once"),
        ("cuda:0,auto", {}, "each named once"),
    ],
)
def test_devices_that_not_every_rank_can_have_are_named(
    device: str, started: dict[str, str], text: str
) -> None:
    environment = {"RANK": "0", "LOCAL_RANK": "0", **started}
    with pytest.raises(Fatal, match=text) as caught:
        place_of(load(["--device", device, "--optimizer.batch", "2"], {}), environment)
    assert caught.value.code == Exit.CONFIG


def test_each_rank_has_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def devices(device: str) -> list[str]:
        config, two = load(["--device", device], {}), {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        places = [place_of(config, {**two, "RANK": f"{n}", "LOCAL_RANK": f"{n}"}) for n in range(2)]
        return [place.config.device for place in places]

    assert devices("cuda") == ["cuda:0", "cuda:1"]
    assert devices("cuda:3,cuda:1") == ["cuda:3", "cuda:1"]
    monkeypatch.setattr(ranks, "may_have_gpus", lambda: False)
    assert devices("auto") == devices("cpu") == devices("cpu,cpu") == ["cpu", "cpu"]
    monkeypatch.setattr(ranks, "may_have_gpus", lambda: True)
    assert devices("auto") == ["cuda:0", "cuda:1"]
    for other in ({"WORLD_SIZE": "4", "RANK": "3"}, dict.fromkeys(ranks.STARTED, "1")):
        alone = place_of(load(["--device", "auto"], {}), other)
        assert (alone.rank, alone.ranks, alone.config.device) == (0, 1, "auto")
