"""Settings of the trainer: their defaults, and which values are refused."""

from pathlib import Path

import pytest
import torch
from in_process import ends
from training_runs import training

import net.gpu
import trainer.__main__
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.hardware import DEVICE_FILES
from trainer.__main__ import load
from trainer.config import OptimizerSettings, TrainerConfig
from trainer.train_step import choose_device


def test_settings_over_those_of_the_optimizer() -> None:
    """Settings that are not given come from the preset; a 0 with a meaning is kept."""
    adamw = OptimizerSettings("adamw", lr=0.01, grad_clip=0.0).filled_in()
    assert (adamw.batch, adamw.lr, adamw.grad_clip, adamw.warmup_steps) == (256, 0.01, 0.0, 30)
    alphazero = OptimizerSettings("alphazero").filled_in()
    assert (alphazero.batch, alphazero.filled_in()) == (4096, alphazero)


OUT_OF_RANGE = (
    "loss.value-q-share=1.1", "loss.capped-value-weight=-0.1", "window.growth-min=0", "optimizer.ema=1.0",
    "samples.held-out=0.9", "optimizer.cosine-steps=-1", "optimizer.cosine-minutes=-1",
    "samples.surprise-share=-0.1", "samples.per-position=0.0", "samples.per-position=inf",
    "samples.per-position=1e308",
    "loss.win-discount=0.0", "loss.win-discount=1.01", "optimizer.grad-clip=-1.0",
    "optimizer.weight-decay=-0.1", "optimizer.warmup-steps=-1", "loss.value-weight=-1.0",
    "publishing.checkpoint-seconds=-5.0",
)  # fmt: skip
NO_WEIGHTS = ("ownership", "ownership:0", "ownership:-1", "ownership:1.2.3")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *((one, " must") for one in OUT_OF_RANGE),
        ("loss.heads=owners:1", ": .*there is no head 'owners'; there are ownership"),
        ("loss.heads=ownership:1,ownership:2", ": .*the head ownership is there twice"),
        *((f"loss.heads={one}", ": .*the weight of ownership must be") for one in NO_WEIGHTS),
        ("optimizer.cosine-steps=100 --optimizer.cosine-minutes=60", r" and --optimizer\.cosine-minutes"),
    ],
)
def test_a_setting_that_cannot_be_is_named(given: str, says: str) -> None:
    with ends(Exit.CONFIG, f"--{given.partition('=')[0]}{says}"):
        load(f"--{given}".split(), {})


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:999"])
def test_a_device_that_is_not_there_is_named(name: str) -> None:
    with ends(Exit.CONFIG, f"--device '?{name}"):
        choose_device(TrainerConfig(device=name).check().device)


def test_a_wrong_device_is_said_before_the_server_is_asked(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("sys.argv", ["trainer", "--device", "cuda:999", "--runs", str(tmp_path)])
    monkeypatch.setattr("trainer.service.Service", None)
    with pytest.raises(Fatal, match="--device cuda:999"):
        trainer.__main__._main()


def test_the_trainer_takes_the_last_gpu_and_none_that_torch_has_no_code_for(monkeypatch, caplog) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA V")
    capabilities = {0: (8, 0), 1: (7, 0), 2: (7, 0), "cuda:2": (7, 0)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", capabilities.get)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_70", "sm_80"])
    assert choose_device("auto") == torch.device("cuda:2")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90"])
    assert choose_device("auto") == torch.device("cuda:0")
    with ends(Exit.CONFIG, r"cuda:2 is a NVIDIA V \(sm_70\), and torch .* sm_80, sm_90 only"):
        choose_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_120"])
    assert choose_device("auto") == torch.device("cpu")
    assert "has code for sm_120 only, and for no GPU here; training runs on the CPU" in caplog.text


def test_a_gpu_whose_driver_is_there_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor starts the trainer again; `auto` says that it trains on the CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(net.gpu, "may_have_gpus", lambda files: files == DEVICE_FILES)
    with ends(Exit.TRY_AGAIN, "nvidia-smi"):
        choose_device("cuda")
    assert choose_device("auto") == torch.device("cpu")


def test_symmetries_are_seen_by_default_where_there_are_any(tmp_path: Path) -> None:
    for count, changes in ((8, {}), (1, {"symmetric": "off"})):
        assert len(training(tmp_path / str(count), **changes)._sampler.maps.cells) == count
