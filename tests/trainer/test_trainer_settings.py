"""Settings of the trainer: their defaults, and which values are refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from training_runs import training

import trainer.__main__
from azselfplay.host.exits import Exit, Fatal
from protocol.settings import changed
from trainer import train_step
from trainer.__main__ import load
from trainer.config import OptimizerSettings, TrainerConfig
from trainer.train_step import choose_device


def test_settings_over_those_of_the_optimizer() -> None:
    """Settings that are not given come from the preset; a 0 with a meaning is kept."""
    adamw = OptimizerSettings("adamw", lr=0.01, grad_clip=0.0).filled_in()
    assert (adamw.batch, adamw.lr, adamw.grad_clip, adamw.warmup_steps) == (256, 0.01, 0.0, 30)
    alphazero = OptimizerSettings("alphazero").filled_in()
    assert (alphazero.batch, alphazero.filled_in()) == (4096, alphazero)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss.value_q_share", 1.1), ("loss.capped_value_weight", -0.1), ("window.growth_min", 0),
        ("optimizer.ema", 1.0), ("samples.held_out", 0.9), ("optimizer.cosine_steps", -1),
        ("optimizer.cosine_minutes", -1),
        ("samples.surprise_share", -0.1), ("samples.per_position", 0.0), ("loss.win_discount", 0.0),
        ("loss.win_discount", 1.01),
        ("optimizer.grad_clip", -1.0), ("optimizer.weight_decay", -0.1), ("optimizer.warmup_steps", -1),
        ("loss.value_weight", -1.0), ("publishing.checkpoint_seconds", -5.0),
        ("samples.per_position", math.inf),
    ],
)  # fmt: skip
def test_setting_out_of_range_is_named(name: str, value: float) -> None:
    """A senseless setting ends the trainer before training begins; the message names it."""
    with pytest.raises(Fatal, match=f"--{name.replace('_', '-')} must") as caught:
        load([f"--{name.replace('_', '-')}", str(value)], {})
    assert caught.value.code == Exit.CONFIG


@pytest.mark.parametrize(
    ("heads", "complaint"),
    [
        ("replies:1", "there is no head 'replies'; there are moves_left"),
        ("reply:1,reply:2", "the head reply is there twice"),
        *((one, "the weight of reply must be") for one in ("reply", "reply:0", "reply:-1", "reply:1.2.3")),
    ],
)
def test_heads_that_cannot_be_trained_are_named(heads: str, complaint: str) -> None:
    with pytest.raises(Fatal, match=f"--loss.heads: .*{complaint}") as caught:
        changed(TrainerConfig(), {"loss.heads": heads}).check()
    assert caught.value.code == Exit.CONFIG


def test_the_rate_falls_by_steps_or_by_minutes_but_not_by_both() -> None:
    both = OptimizerSettings(cosine_steps=100, cosine_minutes=60)
    with pytest.raises(Fatal, match=r"--optimizer\.cosine-steps and --optimizer\.cosine-minutes") as caught:
        TrainerConfig(optimizer=both).check()
    assert caught.value.code == Exit.CONFIG


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:999"])
def test_a_device_that_is_not_there_is_named(name: str) -> None:
    """This includes names that no machine has."""
    with pytest.raises(Fatal, match=f"--device '?{name}") as caught:
        choose_device(TrainerConfig(device=name).check().device)
    assert caught.value.code == Exit.CONFIG


def test_a_wrong_device_is_said_before_the_server_is_asked(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("sys.argv", ["trainer", "--device", "cuda:999", "--runs", str(tmp_path)])
    monkeypatch.setattr("trainer.service.Service", None)
    with pytest.raises(Fatal, match="--device cuda:999"):
        trainer.__main__._main()


def test_the_trainer_takes_the_last_gpu_and_none_that_torch_has_no_code_for(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA V")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_70", "sm_80"])
    assert choose_device("auto") == torch.device("cuda:2")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90"])
    with pytest.raises(
        Fatal, match=r"cuda:2 is a NVIDIA V \(sm_70\), and torch .* sm_80, sm_90 only"
    ) as caught:
        choose_device("auto")
    assert caught.value.code == Exit.CONFIG


def test_a_gpu_whose_driver_is_there_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor starts the trainer again; `auto` says that it trains on the CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(train_step, "may_have_gpus", lambda: True)
    with pytest.raises(Fatal, match="nvidia-smi") as caught:
        choose_device("cuda")
    assert caught.value.code == Exit.TRY_AGAIN
    assert choose_device("auto") == torch.device("cpu")


def test_symmetries_are_seen_by_default_where_there_are_any(tmp_path: Path) -> None:
    """`auto` and `on` use tic-tac-toe's eight symmetries, `off` none."""
    maps = [
        len(training(tmp_path / mode, symmetric=mode)._sampler.maps.cells) for mode in ("auto", "on", "off")
    ]
    assert maps == [8, 8, 1]
