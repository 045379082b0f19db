"""A step is computed in parts where memory is short, and waits for nothing on the device."""

import asyncio
import weakref
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from changed_settings import varied
from torch.overrides import TorchFunctionMode
from training_runs import training
from unsearched import without_policy

import trainer.train_step
from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from bench.random_games import random_game
from net.architectures.network import ConvNorm, build
from net.architectures.registry import TRAINING_HEADS, named
from protocol.messages import PROTOCOL_VERSION, Hello
from trainer.config import TrainerConfig
from trainer.gang import Gang, follow
from trainer.loss import trained_heads
from trainer.ranks import Place
from trainer.sampler import Sampler
from trainer.sampler_kernel import Samples
from trainer.service import Service
from trainer.train_step import TrainStep
from trainer.window import Window

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")
ALL_HEADS = ",".join(f"{name}:0.5" for name in TRAINING_HEADS)


def learner(net: str, **changes: Any) -> TrainStep:
    """Return a network without batch normalisation, which would see the parts one by one."""
    torch.manual_seed(1)
    changes.setdefault("precision", "float32")  # some processors would compute in bfloat16
    recipe = varied(TrainerConfig(), capped_value_weight=0.25, win_discount=0.9, grad_clip=0.0, **changes)
    network = build(named(net).with_heads(recipe.loss.head_weights), GAME, 1)
    for module in network.modules():
        if isinstance(module, ConvNorm):
            module.norm = torch.nn.Identity()
    return TrainStep(GAME, 1, network, recipe.optimizer, recipe.loss, torch.device("cpu"))


def samples_of_all_kinds(one: TrainStep, count: int = 40) -> Samples:
    """Return samples: some are of games that the rules did not end, some have no policy target, and of some
    only the policy is learned."""
    rng, window = np.random.default_rng(0), Window(GAME, 1000)
    for _ in range(30):
        window.add(random_game(GAME, rng, simulations=50, targets=0.7))
    samples = Sampler(GAME, 1, heads=trained_heads(one._loss)).sample(window, rng, count)
    ends, policy_only = rng.integers(0, 3, count, np.uint8), rng.integers(0, 2, count, np.uint8)
    end_values = rng.random(count, np.float32)
    samples = samples._replace(ends=ends, end_values=end_values, policy_only=policy_only)
    return without_policy(samples, range(9))


class ShortOfMemory:
    """A network that fails at the calls `failing`, counted from 0, after it has computed everything."""

    def __init__(self, one: TrainStep, *failing: int) -> None:
        self.rows: list[int] = []
        self._failing, self._all_heads = failing, one.network.all_heads
        self._failed: list[weakref.ref[torch.Tensor]] = []
        one.network.all_heads = self  # type: ignore[assignment]

    def __call__(self, inputs: Any) -> Any:
        assert not any(tensor() is not None for tensor in self._failed), "what failed is still in memory"
        outputs = self._all_heads(inputs)
        self.rows.append(len(outputs.value))
        if len(self.rows) - 1 in self._failing:
            self._failed.append(weakref.ref(outputs.value))
            raise torch.OutOfMemoryError("no room")
        return outputs


def test_a_format_that_a_sparse_network_does_not_have_is_said_to_be_ignored(caplog) -> None:
    learner("sparse", precision="bfloat16")
    assert "bfloat16 is ignored" in caplog.text


@pytest.mark.parametrize(
    ("net", "changes"), [("1x16", {"heads": ALL_HEADS}), ("tf1x32", {"heads": ALL_HEADS}), ("sparse", {})]
)
def test_without_memory_a_step_in_parts_has_the_loss_and_the_gradient_of_the_whole_batch(
    net: str, changes: dict[str, Any]
) -> None:
    """The first half of the batch fits, the second does not: the whole batch is computed again in quarters.
    What failed is freed first, and later steps begin with quarters."""
    found = []
    for failing in ((), (0, 2)):
        one = learner(net, **changes)
        memory = ShortOfMemory(one, *failing)
        one.train(samples_of_all_kinds(one))
        gradients = {name: parameter.grad for name, parameter in one.network.named_parameters()}
        found.append((one.figures(), gradients))
        if failing:
            one.train(samples_of_all_kinds(one, 39))
            assert memory.rows == [40, 20, 20, 10, 10, 10, 10, 10, 10, 10, 9]
    (whole_figures, whole), (figures, in_parts) = found
    torch.testing.assert_close(in_parts, whole, rtol=1e-4, atol=1e-6)
    assert figures[:-1] == pytest.approx(whole_figures[:-1], rel=1e-4)
    assert figures.heads == pytest.approx(whole_figures.heads, rel=1e-4)


def test_weights_are_published_although_there_is_no_memory_to_measure_them(tmp_path: Path) -> None:
    """Steps in parts may need less."""
    one = training(tmp_path)
    ShortOfMemory(one._train_step, 0)
    assert one.measured() is None
    assert one.measured() == (None, one.probe_values(), one.known_errors())


def test_a_device_without_memory_for_one_position_ends_the_trainer_with_a_sentence() -> None:
    one = learner("1x16")
    memory = ShortOfMemory(one, *range(100))
    with pytest.raises(Fatal, match="no room for a step with one position") as error:
        one.train(samples_of_all_kinds(one))
    assert (error.value.code, memory.rows) == (Exit.TRY_AGAIN, [40, 20, 10, 5, 3, 2, 1])


def test_a_device_without_memory_for_the_optimizer_ends_the_trainer_with_a_sentence(monkeypatch) -> None:
    one = learner("1x16")

    def no_room() -> None:
        raise torch.OutOfMemoryError("no room")

    async def main() -> None:
        service = Service(TrainerConfig(), Hello(PROTOCOL_VERSION, "trainer", "test"))
        await service.in_training_thread(one.train, samples_of_all_kinds(one))

    monkeypatch.setattr(one.optimizer, "step", no_room)
    with pytest.raises(Fatal, match="device is short of memory") as error:
        asyncio.run(main())
    assert error.value.code == Exit.TRY_AGAIN
    monkeypatch.setattr(Gang, "receive_state", lambda _: no_room())
    with pytest.raises(Fatal, match="device is short of memory"):
        follow(Gang(Place(1, 2, TrainerConfig(), ["cpu"]), None), TrainerConfig(cpu_threads=1))


def test_ranks_that_normalise_together_end_where_one_is_short_of_memory() -> None:
    """The others would wait for numbers of its batch normalisation that never come."""
    one = learner("1x16")
    one._ranks.sync_norm = True
    memory = ShortOfMemory(one, 0)
    with pytest.raises(Fatal, match=r"with --optimizer\.sync-norm no rank computes in parts") as error:
        one.train(samples_of_all_kinds(one))
    assert (error.value.code, memory.rows) == (Exit.TRY_AGAIN, [40])


class Constants(TorchFunctionMode):
    """Records the calls that make a tensor of Python's numbers: on a GPU, its copy waits for all that
    runs."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in {"tensor", "as_tensor", "new_tensor"}:
            self.made.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("net", ["1x16", "tf1x32"])
def test_a_step_waits_for_nothing_on_the_device(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Because of this, the next batch is drawn while a GPU computes this one. A tensor of type `meta` has no
    numbers: whoever reads one fails."""
    one = learner(net, heads=ALL_HEADS)
    samples = samples_of_all_kinds(one)
    monkeypatch.setattr(
        trainer.train_step, "make_optimizer", lambda _, network: torch.optim.SGD(network.parameters())
    )
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    on_meta = TrainStep(GAME, 1, one.network, one._optimizer, one._loss, torch.device("meta"))
    with Constants() as constants:
        on_meta.train(samples)
    assert (on_meta.step, constants.made) == (1, [])
