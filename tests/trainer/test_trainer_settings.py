"""Settings of the trainer: what they default to, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_runs import games, training

from runtime.exits import Exit, Fatal
from trainer.config import TrainerConfig
from trainer.training_loop import recipe_of


def test_network_of_any_size(tmp_path: Path) -> None:
    """--net takes sizes where it takes presets; what is neither is refused before anything is begun."""
    one = training(tmp_path / "a", net="1x8setanh")
    one._sampler.warm(games(1)[0])
    assert one.architecture == "1x8setanh"
    assert one._train_step.network.value.out.out_features == 1
    with pytest.raises(Fatal, match="BLOCKSxCHANNELS") as caught:
        TrainerConfig(net="1x8 se").check()
    assert caught.value.code == Exit.CONFIG


def test_settings_over_the_recipe() -> None:
    """What is not set comes from the preset; a 0 that means something is kept."""
    recipe = recipe_of(TrainerConfig(optimizer="adamw", lr=0.01, grad_clip=0.0))
    assert (recipe.batch, recipe.lr, recipe.grad_clip, recipe.warmup_steps) == (256, 0.01, 0.0, 30)
    alphazero = recipe_of(TrainerConfig(optimizer="alphazero"))
    assert (alphazero.batch, alphazero.policy_loss) == (4096, "legal")
    assert recipe_of(TrainerConfig(policy_loss="all")).policy_loss == "all"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("value_q_share", 1.1), ("capped_value_weight", -0.1), ("window_beta", 2.0), ("window_alpha", 0.0),
        ("window_min", 0), ("ema", 1.0), ("held_out", 0.9), ("cosine_steps", -1), ("surprise_share", -0.1),
        ("win_discount", 0.0), ("win_discount", 1.01), ("moves_left_weight", -1.0),
        ("soft_policy_weight", -1.0),
    ],
)  # fmt: skip
def test_setting_out_of_range_is_named(name: str, value: float) -> None:
    """A setting that makes no sense ends the trainer before anything is begun, with its name."""
    with pytest.raises(Fatal, match=f"--{name.replace('_', '-')} must") as caught:
        TrainerConfig(**{name: value}).check()  # type: ignore[arg-type]
    assert caught.value.code == Exit.CONFIG


def test_symmetries_are_seen_by_default_where_there_are_any(tmp_path: Path) -> None:
    """`auto` and `on` see tic-tac-toe through its eight symmetries, `off` as it stands."""
    maps = [
        len(training(tmp_path / mode, symmetric=mode)._sampler._maps.cells) for mode in ("auto", "on", "off")
    ]
    assert maps == [8, 8, 1]
