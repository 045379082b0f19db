"""The parts of the CUDA path that can be tested without a GPU: graphs, kernels, number formats."""

import time
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from every_game import EVERY_GAME
from test_inference import a_batch, naive_answers, trained_like
from torch._dynamo.testing import CompileCounter
from torch.utils._python_dispatch import TorchDispatchMode

import net.gpu
import net.inference
from azselfplay.games import get_game
from azselfplay.host.hardware import DEVICE_FILES
from net.architectures.network import conv_add_relu, conv_relu, fold
from net.architectures.registry import named
from net.gpu import OnCuda, chosen_kernels, has_bfloat16, has_code, inference_dtype
from net.inference import Inference
from net.planes import features_tensor
from net.torch_engine import NO_ACTION, Buffers, ModuleForward, TorchEngine, spread
from net.weights import WeightsMeta
from protocol.frames import LeafBatch

HISTORY = 2


class Kernels(TorchDispatchMode):
    """Counts the kernels that torch would start on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.started: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not any(
            out.alias_info is not None and not out.alias_info.is_write for out in func._schema.returns
        ):
            self.started[func._schema.name] += 1
        return func(*args, **(kwargs or {}))


@conv_relu.register_kernel("cpu")
def _(x: Any, weight: Any, bias: Any, padding: int) -> Any:
    """Do what cuDNN does in one kernel."""
    return torch.conv2d(x, weight, bias, padding=padding).relu()


@conv_add_relu.register_kernel("cpu")
def _(x: Any, weight: Any, bias: Any, other: Any, padding: int) -> Any:
    return (torch.conv2d(x, weight, bias, padding=padding) + other).relu()


def inputs_of(game: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    legal = np.full((batch.rows, game.max_legal), NO_ACTION, np.int16)
    spread(batch.actions, batch.counts, NO_ACTION, legal)
    return features_tensor(batch.features), torch.from_numpy(legal)


@pytest.mark.parametrize(
    ("name", "preset"), [*((name, "1x16se") for name in EVERY_GAME), ("shogi", "1x16"), ("shogi", "tf1x16")]
)
def test_a_network_is_compiled_once_for_all_sizes_of_a_batch(
    name: str, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one graph with cuDNN's convolutions in it; the compiler used here runs the graph as it is."""
    game, counter, compile_it = get_game(name), CompileCounter(), torch.compile
    monkeypatch.setattr(torch, "compile", partial(compile_it, backend=counter))
    network = fold(trained_like(named(preset), game, HISTORY))
    forward = ModuleForward(network, game, HISTORY, "cpu", torch.float32, "compile")
    plain = ModuleForward(network, game, HISTORY, "cpu", torch.float32)
    with torch.inference_mode():
        for rows in (16, 33, 64):
            inputs = inputs_of(game, a_batch(game, HISTORY, rows))
            for ours, expected in zip(forward(*inputs), plain(*inputs), strict=True):
                torch.testing.assert_close(ours, expected, atol=1e-3, rtol=1e-3)
    assert counter.frame_count == 1


def test_where_torch_cannot_compile_the_network_plays_without_that_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine without a C compiler is an example."""

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("Failed to find C compiler.\nMore lines")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: fails)
    game = get_game("chess")
    network, batch = trained_like(named("2x16se"), game, HISTORY), a_batch(game, HISTORY, 5)
    forward = ModuleForward(fold(network), game, HISTORY, "cpu", torch.float32, "compile")
    with torch.inference_mode():
        _, wdl = forward(*inputs_of(game, batch))
    np.testing.assert_allclose(wdl, naive_answers(network, game, HISTORY, batch)[1], atol=1e-5)
    assert caplog.messages == [
        "torch cannot compile the network here, so evaluations are slower: Failed to find C compiler."
    ]
    assert forward.name == "torch float32 cudnn"


@pytest.mark.parametrize("preset", ["2x16", "2x16se", "tf1x16"])
def test_fused_convolutions_answer_what_the_plain_network_answers(preset: str) -> None:
    game = get_game("chess")
    network, batch = trained_like(named(preset), game, HISTORY), a_batch(game, HISTORY, 5)
    forward = ModuleForward(fold(network), game, HISTORY, "cpu", torch.float32, "cudnn")
    packed, legal = inputs_of(game, batch)
    with torch.inference_mode(), Kernels():
        priors, wdl = forward(packed, legal)
    expected_priors, expected_wdl = naive_answers(network, game, HISTORY, batch)
    np.testing.assert_allclose(
        priors.numpy()[legal.numpy() != NO_ACTION], expected_priors, atol=1e-3, rtol=1e-3
    )
    np.testing.assert_allclose(wdl, expected_wdl, atol=1e-5)


def test_no_relu_and_no_addition_of_a_tower_is_a_kernel_of_its_own() -> None:
    """The only exception is the value head's hidden layer, which is no convolution."""
    game = get_game("chess")
    forward = ModuleForward(
        fold(trained_like(named("3x16"), game, HISTORY)), game, HISTORY, "cpu", torch.float32, "cudnn"
    )
    with torch.inference_mode(), Kernels() as kernels:
        forward(*inputs_of(game, a_batch(game, HISTORY, 5)))
    assert kernels.started["azselfplay::conv_relu"] == 1 + 3 + 2
    assert kernels.started["azselfplay::conv_add_relu"] == 3
    assert kernels.started["aten::relu"] == 1
    assert kernels.started["aten::add"] == 0


@pytest.mark.parametrize(
    ("capability", "built_for", "runs"),
    [
        ((9, 0), ["sm_80", "sm_90"], True),
        ((8, 6), ["sm_75", "sm_80", "sm_90"], True),  # machine code of the same major number
        ((7, 0), ["sm_75", "sm_80"], False),  # a V100 and the wheels of CUDA 13
        ((6, 1), ["sm_50", "sm_60"], True),
        ((8, 0), ["sm_86"], False),
        ((12, 0), ["sm_90", "compute_90"], True),  # the driver translates
        ((7, 5), ["sm_90", "compute_90"], False),
        ((10, 0), ["sm_90a"], False),
        ((9, 0), ["sm_90a"], True),
        ((12, 0), ["sm_120"], True),
        ((9, 0), [], False),
    ],
)
def test_a_torch_without_code_for_a_gpu_is_known(
    capability: tuple[int, int], built_for: list[str], runs: bool
) -> None:
    assert has_code(capability, built_for) == runs


@pytest.mark.parametrize(
    ("found", "versions", "why", "may_come"),
    [
        (0, {"cuda": "13.0"}, "torch finds no GPU: it needs a driver for CUDA 13.0", True),
        (1, {"cuda": None, "hip": "7.0"}, "built without CUDA", False),  # an AMD's
        (1, {"cuda": "13.0"}, "no GPU here", False),
    ],
)
def test_torch_says_why_it_uses_no_gpu(
    found: int, versions: dict, why: str, may_come: bool, monkeypatch
) -> None:
    for name, version in versions.items():
        monkeypatch.setattr(torch.version, name, version)
    made_up = {"is_available": bool(found), "device_count": found, "get_device_name": "P40"}
    for name, answer in {**made_up, "get_device_capability": (6, 1), "get_arch_list": ["sm_80"]}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(net.gpu, "may_have_gpus", lambda files: files == DEVICE_FILES)
    if "hip" in versions:
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["gfx900"])
        with pytest.raises(ValueError, match="built without CUDA"):
            net.gpu.check_device("cuda:0")
    gpus = net.gpu.found_gpus()
    assert why in gpus.why
    assert (gpus.usable, gpus.may_come) == ([], may_come)


def test_number_formats_follow_from_the_capability() -> None:
    """The GPUs are P100, V100, T4, A100 and H100; bfloat16 on a T4 is emulated."""
    capabilities = [(6, 0), (7, 0), (7, 5), (8, 0), (9, 0)]
    assert [inference_dtype(one) for one in capabilities] == [torch.float32] + 4 * [torch.float16]
    assert [has_bfloat16(one) for one in capabilities] == [False, False, False, True, True]


def test_an_unknown_way_of_running_kernels_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZ_CUDA_KERNELS", "inductor")
    with pytest.raises(ValueError, match="AZ_CUDA_KERNELS is one of compile, cudnn, plain, not 'inductor'"):
        chosen_kernels("cudnn")


@pytest.mark.parametrize("where", ["tower", "policy"])
def test_a_batch_that_overflows_float16_is_computed_again_and_later_weights_in_the_wider_format(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The second computation does not wait for a compiler that takes 20 s."""
    made: list[tuple[torch.dtype, str]] = []

    def make(*arguments: Any, threads: int, on_cuda: OnCuda, **sizes: Any) -> TorchEngine:
        made.append((on_cuda.dtype or torch.float16, on_cuda.kernels))
        return TorchEngine(ModuleForward(*arguments, made[-1][0]), **sizes)

    monkeypatch.setattr(net.inference, "make_engine", make)
    monkeypatch.setattr(net.inference, "wider_dtype", lambda _: torch.bfloat16)
    game = get_game("tic_tac_toe")
    small = trained_like(named("1x16"), game, 1)
    large = trained_like(named("1x16"), game, 1)
    with torch.no_grad():
        if where == "tower":
            large.start.norm.weight.mul_(1e6)  # 1e6 after the first layer, about 1 again after the next ones
            large.policy.hidden.norm.weight.mul_(1e-6)
            large.value.narrow.norm.weight.mul_(1e-6)
        else:
            large.policy.hidden.norm.weight.mul_(1e6)
            large.policy.out.weight.mul_(1e-6)
    inference = Inference(game, 1, max_rows=16, target_rows=16, compiled=True)
    batch = a_batch(game, 1, 5)
    first, at_once, later = (torch.float16, "compile"), (torch.bfloat16, "cudnn"), (torch.bfloat16, "compile")
    for network, expected in ((small, [first]), (large, [first, at_once]), (small, [first, at_once, later])):
        inference.use(network, WeightsMeta(game.name, 1, named("1x16")))
        answers = inference.run(batch)
        for found, right in zip(answers, naive_answers(network, game, 1, batch), strict=True):
            np.testing.assert_allclose(found, right, atol=0.05)
        assert made == expected
    inference.close()


@pytest.mark.parametrize("name", EVERY_GAME)
def test_a_row_goes_up_with_two_bytes_for_a_legal_action_and_each_action_of_a_game_fits(name: str) -> None:
    game = get_game(name)
    buffers = Buffers.make(
        3, game.feature_words(HISTORY), game.max_legal, game.actions, torch.device("meta"), pinned=False
    )
    assert buffers.packed_features.nbytes + buffers.legal.nbytes == 3 * (
        8 * game.feature_words(HISTORY) + 2 * game.max_legal
    )
    assert game.actions - 1 <= torch.iinfo(buffers.legal.dtype).max
    actions = np.array([game.actions - 1], np.uint16)
    legal = np.zeros((1, 2), np.int16)
    spread(actions, np.ones(1, np.uint16), NO_ACTION, legal)
    assert legal.tolist() == [[game.actions - 1, NO_ACTION]]


def test_features_are_uploaded_from_where_they_were_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the batches in flight has room of its own. Features that came another way are copied there."""

    def make(*arguments: Any, threads: int, on_cuda: OnCuda, **sizes: Any) -> TorchEngine:
        return TorchEngine(ModuleForward(*arguments, torch.float32), **sizes)

    monkeypatch.setattr(net.inference, "make_engine", make)
    game = get_game("tic_tac_toe")
    network = trained_like(named("1x16"), game, 1)
    inference = Inference(game, 1, max_rows=16, target_rows=16)
    inference.use(network, WeightsMeta(game.name, 1, named("1x16")))
    batches = [a_batch(game, 1, rows) for rows in (5, 9, 16)]
    rooms, tickets = [], []
    for batch in batches[:2]:
        rooms.append(inference.room_for(batch.rows))
        rooms[-1][:] = batch.features
        tickets.append(inference.submit(batch._replace(features=rooms[-1])))
        buffer = inference._engine._slots[tickets[-1].slot].host.packed_features
        assert np.shares_memory(rooms[-1], buffer.numpy())
    assert not np.shares_memory(*rooms)
    answers = [inference.collect(ticket) for ticket in tickets]
    answers.append(inference.run(batches[2]))
    for (_, wdl), batch in zip(answers, batches, strict=True):
        np.testing.assert_allclose(wdl, naive_answers(network, game, 1, batch)[1], atol=1e-5)
    assert inference.room_for(17).shape == (17, game.feature_words(1))  # more than a batch holds: no buffer
    inference.close()


@pytest.mark.parametrize(("once", "target"), [(1e-5, 256), (1e-4, 2048), (1e-3, 4096)])
def test_a_gpu_collects_as_many_rows_as_make_it_nearly_as_fast_as_any(
    once: float, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a made-up device a batch takes `once` seconds and a microsecond a row; 93 % of its rate will do."""
    clock = 0.0

    class MadeUp:
        name, may_overflow = "made-up", False

        def start(self, batch: LeafBatch, _slot: int) -> None:
            nonlocal clock
            clock += once + 1e-6 * batch.rows

        def finish(self, _slot: int) -> tuple[Any, Any]:
            return None, None

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "made-up")
    monkeypatch.setattr(net.inference, "check_device", lambda _: None)
    monkeypatch.setattr(net.inference, "make_engine", lambda *_, **__: MadeUp())
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    game = get_game("tic_tac_toe")
    inference = Inference(game, 1, "cuda")
    inference.use(trained_like(named("1x16"), game, 1), WeightsMeta(game.name, 1, named("1x16")))
    assert inference.target_rows == target
