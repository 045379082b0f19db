"""Losses are as the papers define them, and a network learns what it is trained on."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from changed_settings import varied
from unsearched import without_policy

from azselfplay.games import get_game
from bench.random_games import random_game
from net.architectures.network import build
from net.architectures.registry import Architecture, named
from net.architectures.residual import Residual
from trainer.config import OptimizerSettings, TrainerConfig
from trainer.loss import Targets, losses, outcome_targets, value_loss, value_targets
from trainer.sampler import Sampler
from trainer.sampler_kernel import OF_ROWS, Counts, Samples
from trainer.train_step import StepFigures, TrainStep, learning_rate, make_optimizer
from trainer.window import BY_CAP, Window

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")
NET = Residual(1, 16, value_channels=2, value_hidden=16, value_head="wdl")


def some_samples(count: int, targets: float = 1.0) -> Samples:
    """Return random samples; `targets`: the share of them with a policy target."""
    rng = np.random.default_rng(0)
    window = Window(GAME, 1000)
    for _ in range(30):
        window.add(random_game(GAME, rng, simulations=50))
    return without_policy(Sampler(GAME, 1).sample(window, rng, count), range(round(targets * count), count))


def a_learner(net: Architecture = NET, **settings: Any) -> TrainStep:
    """Return a new network that is trained with these settings, and the usual ones."""
    recipe = varied(TrainerConfig(), **settings)
    return TrainStep(GAME, 1, build(net, GAME, 1), recipe.optimizer, recipe.loss, torch.device("cpu"))


def naive_losses(
    policy: list[list[float]], value: list[list[float]], samples: Samples
) -> tuple[float, float, float]:
    """Return policy loss, value loss and the entropy of the visits, sample by sample and in doubles."""
    policy_sum, value_sum, entropy, targets = 0.0, 0.0, 0.0, 0
    for row, logits in enumerate(policy):
        entries = np.flatnonzero(samples.rows == row)
        targets += len(entries) > 0
        log_total = math.log(sum(math.exp(logits[action]) for action in samples.actions[entries]) or 1.0)
        for i in entries:
            share = float(samples.shares[i])
            policy_sum -= share * (logits[samples.actions[i]] - log_total)
            entropy -= share * math.log(share) if share else 0.0
        wanted = int(samples.classes[row])
        if len(value[row]) == 3:
            value_sum += math.log(sum(math.exp(x) for x in value[row])) - value[row][wanted]
        else:
            value_sum += ((1, 0, -1)[wanted] - math.tanh(value[row][0])) ** 2
    return policy_sum / targets, value_sum / len(policy), entropy / targets


def targets_of(samples: Samples) -> Targets:
    classes = torch.from_numpy(samples.classes)
    entries = map(torch.from_numpy, (samples.rows, samples.actions, samples.shares))
    wdl, weights = torch.eye(3)[classes], torch.ones(len(classes))
    return Targets(wdl, weights, *entries, Counts.of(samples))


@pytest.mark.parametrize(
    ("outcome", "q", "search"),
    [
        (0, 0.5, (0.75, 0.0, 0.25)),
        (2, 0.5, (0.75, 0.0, 0.25)),
        (1, 0.5, (0.5, 0.5, 0.0)),
        (1, -1.0, (0.0, 0.0, 1.0)),
        (1, 0.0, (0.0, 1.0, 0.0)),
    ],
)
def test_root_value_in_the_target_keeps_the_draws_of_the_games(
    outcome: int, q: float, search: tuple[float, float, float]
) -> None:
    """Win minus loss is q, whatever the outcome was; only a drawn game leaves probability for a draw."""
    z, by_search = torch.eye(3)[outcome], torch.tensor(search)
    targets = [value_targets(z[None], torch.tensor([q]), share)[0] for share in (0.0, 1.0, 0.25)]
    wanted = [z, by_search, 0.75 * z + 0.25 * by_search]
    torch.testing.assert_close(torch.stack(targets), torch.stack(wanted))


def test_far_wins_and_losses_fade_to_draws() -> None:
    """k plies before the end, a decided game counts as decided with probability discount^k and else as drawn.
    Draws stay draws. Win minus loss is the outcome times discount^k, the target of a tanh head."""
    classes, left = torch.tensor([0, 0, 2, 1]), torch.tensor([1, 3, 2, 5], dtype=torch.int32)
    expected = torch.tensor([[0.5, 0.5, 0], [0.125, 0.875, 0], [0, 0.75, 0.25], [0, 1, 0]])
    ended = torch.ones(4)
    torch.testing.assert_close(outcome_targets(classes, left, ended, 0.5), expected)
    torch.testing.assert_close(outcome_targets(classes, left, ended, 1.0), torch.eye(3)[classes])


def test_a_resigned_game_fades_from_the_value_at_its_end() -> None:
    """The last position keeps the value for which it was resigned, up to that of a game that ends there. With
    all wins alike, a resignation is a loss."""
    classes, left = torch.tensor([2, 0, 2]), torch.tensor([1, 2, 1], dtype=torch.int32)
    values = torch.tensor([0.4, 0.4, 0.9])
    found = outcome_targets(classes, left, values, 0.5)
    torch.testing.assert_close(found[:, 0] - found[:, 2], torch.tensor([-0.4, 0.2, -0.5]))
    torch.testing.assert_close(outcome_targets(classes, left, values, 1.0), torch.eye(3)[classes])


def test_a_root_value_is_mixed_with_a_faded_outcome() -> None:
    """Win minus loss is mixed."""
    mixed = value_targets(torch.tensor([[0.0, 0.75, 0.25]]), torch.tensor([0.6]), 0.5)
    torch.testing.assert_close(mixed[0, 0] - mixed[0, 2], torch.tensor(0.5 * -0.25 + 0.5 * 0.6))
    torch.testing.assert_close(mixed.sum(dim=1), torch.ones(1))
    assert bool((mixed >= 0).all())


@pytest.mark.parametrize("value_outputs", [3, 1], ids=["wdl", "tanh"])
def test_soft_and_weighted_value_targets(value_outputs: int) -> None:
    rng = np.random.default_rng(3)
    wdl, weights = rng.dirichlet(np.ones(3), 20), rng.choice([0.25, 1.0], 20)
    logits = rng.normal(size=(20, value_outputs))
    expected = 0.0
    for target, weight, x in zip(wdl, weights, logits, strict=True):
        if value_outputs == 3:
            loss = -sum(t * (a - math.log(sum(map(math.exp, x)))) for t, a in zip(target, x, strict=True))
        else:
            loss = (target[0] - target[2] - math.tanh(x[0])) ** 2
        expected += weight * loss / 20
    tensors = [torch.from_numpy(array) for array in (logits, wdl, weights)]
    assert value_loss(*tensors, 20).item() == pytest.approx(expected)


def test_capped_games_weigh_less_in_the_step_not_in_the_figure() -> None:
    """With weight 0, a batch of capped games does not change the value head (except for its weight decay)."""
    torch.manual_seed(3)
    learner = a_learner(capped_value_weight=0.0, weight_decay=0.0)
    samples = some_samples(16)
    before = learner.network.value.out.weight.clone()
    learner.train(samples._replace(ends=np.full(16, BY_CAP, np.uint8)))
    assert torch.equal(learner.network.value.out.weight, before)
    learner.figures()
    learner.train(samples._replace(ends=np.arange(16, dtype=np.uint8) % 2 * np.uint8(BY_CAP)))
    figures = learner.figures()
    assert figures is not None
    assert figures.value_loss == pytest.approx(math.log(3), abs=0.05)
    assert not torch.equal(learner.network.value.out.weight, before)


def test_where_only_the_policy_is_learned_the_value_stays_as_it_is() -> None:
    torch.manual_seed(3)
    learner = a_learner(named("1x16"), weight_decay=0.0)
    before = learner.network.state_dict().items()
    heads = {name: part.clone() for name, part in before if ".out.weight" in name}
    learner.train(some_samples(16)._replace(policy_only=np.ones(16, np.uint8)))
    after = learner.network.state_dict()
    changed = {name for name, part in heads.items() if not torch.equal(after[name], part)}
    assert len(heads) == 2
    assert changed == {"policy.out.weight"}


def test_the_held_out_spread_is_that_of_the_values() -> None:
    torch.manual_seed(3)
    learner = a_learner()
    samples = some_samples(40)
    values = learner.values(samples.packed_features)
    assert (np.abs(values) <= 1).all()
    assert learner.evaluate(samples).value_spread == pytest.approx(values.std())


@pytest.mark.parametrize("value_outputs", [3, 1], ids=["wdl", "tanh"])
def test_losses_agree_with_the_slow_twin(value_outputs: int) -> None:
    samples = some_samples(40, targets=0.6)
    torch.manual_seed(1)
    policy, value = torch.randn(40, 9), torch.randn(40, value_outputs)
    parts = losses(policy, value, targets_of(samples))
    expected = naive_losses(policy.tolist(), value.tolist(), samples)
    assert tuple(part.item() for part in parts) == pytest.approx(expected, rel=1e-5)


def test_illegal_moves_have_no_part_in_the_loss() -> None:
    samples = some_samples(40, targets=0.6)
    targets = targets_of(samples)
    logits = torch.full((40, 9), 1e4)
    logits[targets.rows, targets.actions] = -1e4
    logits.requires_grad_()
    loss = losses(logits, torch.zeros(40, 3), targets).policy
    loss.backward()
    counts = np.unique(samples.rows, return_counts=True)[1]
    assert loss.item() == pytest.approx(np.log(counts).mean(), rel=1e-5)
    assert logits.grad is not None
    touched = torch.zeros(40, 9, dtype=torch.bool)
    touched[targets.rows, targets.actions] = True
    assert not logits.grad[~touched].any()
    assert logits.grad.isfinite().all()


def test_batch_without_policy_targets_trains_the_value_only() -> None:
    samples = some_samples(8, targets=0.0)
    logits = torch.randn(8, 9, requires_grad=True)
    parts = losses(logits, torch.zeros(8, 3), targets_of(samples))
    parts.policy.backward()
    assert (len(samples.rows), parts.policy.item(), parts.policy_entropy.item()) == (0, 0.0, 0.0)
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize("net", [NET, named("tf1x32")], ids=["residual", "transformer"])
def test_one_batch_is_learnt_by_heart(net: Architecture) -> None:
    torch.manual_seed(2)
    learner = a_learner(net, lr=0.01, warmup_steps=10)
    samples = distinct(some_samples(16))
    figures = by_heart(learner, samples, 200)
    assert figures.policy_loss - figures.policy_entropy < 0.05
    assert figures.value_loss < 0.05


def by_heart(learner: TrainStep, samples: Samples, steps: int) -> StepFigures:
    """Return the figures of the last of so many steps on the same samples."""
    for _ in range(steps):
        learner.train(samples)
    learner.figures()
    learner.train(samples)
    figures = learner.figures()
    assert figures is not None
    return figures


def distinct(samples: Samples) -> Samples:
    """Return one sample of each position, because two with different targets cannot both be learned."""
    _, rows = np.unique(samples.packed_features, axis=0, return_index=True)
    parts = [np.flatnonzero(samples.rows == row) for row in rows]
    numbers = np.repeat(np.arange(len(rows)), [len(part) for part in parts])
    entries = np.concatenate(parts)
    of_rows = (getattr(samples, name)[rows] for name in OF_ROWS)
    return Samples(*of_rows, numbers, samples.actions[entries], samples.shares[entries])


@pytest.mark.parametrize(
    ("settings", "steps", "minutes", "rates"),
    [
        (OptimizerSettings("adamw"), [0, 14, 29, 10**6], [0], [1e-3 / 30, 5e-4, 1e-3, 1e-3]),
        (
            OptimizerSettings("alphazero"),
            [0, 99_999, 100_000, 300_000, 500_000],
            [0],
            [0.2, 0.2, 0.02, 0.002, 0.0002],
        ),
        (OptimizerSettings(lr=1, cosine_steps=1000), [0, 500, 1000, 10**6], [0], [1 / 30, 0.55, 0.1, 0.1]),
        (OptimizerSettings(lr=1, cosine_minutes=60), [30], [0, 30, 60, 10**6], [1.0, 0.55, 0.1, 0.1]),
        (OptimizerSettings(lr=1, cosine_minutes=60), [10**6], [0, 30, 60, 10**6], [1.0, 0.55, 0.1, 0.1]),
    ],
)
def test_the_rate_warms_up_and_falls_as_is_set(
    settings: OptimizerSettings, steps: list[int], minutes: list[float], rates: list[float]
) -> None:
    """AlphaZero's drops where the paper says. A cosine falls to a tenth and stays; one by minutes does not
    depend on the steps."""
    found = [learning_rate(settings.filled_in(), step, at) for step in steps for at in minutes]
    assert found == pytest.approx(rates, rel=1e-4)


def test_average_is_the_weighted_mean_of_all_steps() -> None:
    """Weights and running statistics follow by 1 - decay per step, faster in the first steps; the network
    that is trained does not change."""
    torch.manual_seed(4)
    one, plain = a_learner(ema=0.5), a_learner(ema=0.0)
    plain.network.load_state_dict(one.network.state_dict())
    expected = {name: tensor.clone().double() for name, tensor in one.network.state_dict().items()}
    samples = some_samples(16)
    for step in range(1, 21):
        one.train(samples)
        plain.train(samples)
        kept = min(0.5, step / (10 + step))
        for name, tensor in one.network.state_dict().items():
            expected[name] = kept * expected[name] + (1 - kept) * tensor
    for name, tensor in one.playing.state_dict().items():
        assert torch.equal(one.network.state_dict()[name], plain.network.state_dict()[name])
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor.double(), expected[name], rtol=1e-4, atol=1e-6)
    assert int(one.playing.start.norm.num_batches_tracked) == 20


def test_adamw_decays_filters_only() -> None:
    """AdamW does not pull biases and normalisation to zero; AlphaZero's SGD decays everything."""
    network = build(NET, GAME, 1)
    decayed, free = make_optimizer(OptimizerSettings().filled_in(), network).param_groups
    assert all(parameter.dim() >= 2 for parameter in decayed["params"])
    assert free["weight_decay"] == 0
    (group,) = make_optimizer(OptimizerSettings("alphazero").filled_in(), network).param_groups
    assert (group["weight_decay"], group["momentum"]) == (2e-4, 0.9)
