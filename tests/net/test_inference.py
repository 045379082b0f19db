"""Inference, compared with the plain network in eval mode, on every engine that runs without a GPU."""

import gc
import weakref
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
import torch
from net_shapes import (
    CHESS_SHAPE,
    FOUR_SHAPE,
    GO_SHAPE,
    HANDS_SHAPE,
    LARGE_SHAPE,
    ONE_SHAPE,
    ROW_SHAPE,
    THREE_SHAPE,
    naive_planes,
    random_legal,
    random_words,
)

from azselfplay.games.spec import Game
from net.architectures.network import Network, build, fold
from net.architectures.registry import Architecture
from net.architectures.residual import Residual
from net.cpu.convolutions import packed_available
from net.cpu.engine import CpuEngine
from net.inference import Engine, Inference
from net.planes import features_tensor
from net.torch_engine import NO_ACTION, ModuleForward, Slot, TorchEngine, spread
from net.weights import BadWeights, WeightsMeta, save
from protocol.frames import LeafBatch

SE_WDL = Residual(2, 16, True, 8, value_channels=2, value_hidden=16, value_head="wdl")
ODD_TANH = Residual(1, 20, flat_policy_channels=3, value_channels=1, value_hidden=24, value_head="tanh")
CASES = [
    (CHESS_SHAPE, 8, SE_WDL),
    (CHESS_SHAPE, 2, ODD_TANH),
    (FOUR_SHAPE, 1, ODD_TANH),
    (THREE_SHAPE, 1, SE_WDL),
    (GO_SHAPE, 2, SE_WDL),
    (HANDS_SHAPE, 3, SE_WDL),
    (ROW_SHAPE, 2, ODD_TANH),
    (ONE_SHAPE, 1, SE_WDL),
    (LARGE_SHAPE, 1, ODD_TANH),
]
NAMES = [f"{game.name}-{sizes.value_head}" for game, _, sizes in CASES]
KINDS = [f"{way} {dtype}" for way in ("kernels", "module", "torch") for dtype in ("float32", "bfloat16")]
NOT_HERE = pytest.mark.skipif(
    not packed_available(torch.bfloat16), reason="this CPU has no bfloat16 convolutions: it runs in float32"
)
ENGINES = [pytest.param(kind, marks=[NOT_HERE] * (kind == "kernels bfloat16")) for kind in KINDS]
"""The two CPU engines, and the one for GPUs (run on a CPU)."""


def trained_like(sizes: Architecture, game: Game, history: int, seed: int = 0) -> Network:
    """Return a network in which every parameter and running statistic affects the answer."""
    torch.manual_seed(seed)
    network = build(sizes, game, history)
    for name, tensor in network.state_dict().items():
        if name.endswith(("norm.weight", "running_var")):
            tensor.uniform_(0.5, 1.5)
        elif name.endswith(("bias", "bias.table", "running_mean")):
            tensor.normal_(std=0.3)
        elif name.endswith(("out.weight", "others.weight", "excite.weight")):
            tensor.normal_(std=0.3 / np.sqrt(tensor[0].numel()) * 3)
    return network.eval()


def a_batch(game: Game, history: int, rows: int, seed: int = 0) -> LeafBatch:
    rng = np.random.default_rng(seed)
    return LeafBatch(random_words(game, history, rows, rng), *random_legal(game, rows, rng))


def make_engine(kind: str, network: Network, game: Game, history: int) -> Engine:
    dtype = torch.bfloat16 if "bf" in kind else torch.float32
    if not kind.startswith("torch"):
        # Without oneDNN's operations, the module itself is run.
        available = patch("net.cpu.engine.packed_available", lambda _: kind.startswith("kernels"))
        with available:
            return CpuEngine(fold(network), game, history, dtype, threads=2)
    forward = ModuleForward(fold(network), game, history, "cpu", dtype)
    return TorchEngine(forward, buckets=(4, 16, 128), in_flight=2)


def naive_answers(
    network: Network, game: Game, history: int, batch: LeafBatch
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    with torch.no_grad():
        logits, values = network(torch.from_numpy(naive_planes(batch.features, game, history)))
    priors, at = [], 0
    for row, count in enumerate(batch.counts):
        legal = logits[row, batch.actions[at : at + count].astype(np.int64)].double().numpy()
        priors.append(np.exp(legal - legal.max()) / np.exp(legal - legal.max()).sum())
        at += int(count)
    if values.shape[1] == 3:
        return np.concatenate(priors), values.double().softmax(1).numpy()
    value = np.tanh(values[:, 0].double().numpy())
    return np.concatenate(priors), np.stack([(1 + value) / 2, 0 * value, (1 - value) / 2], axis=1)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_row_that_is_no_number_spoils_no_other_row(kind: str) -> None:
    """Workers rely on this: only the games of that row are abandoned."""
    engine = make_engine(kind, trained_like(SE_WDL, CHESS_SHAPE, 2), CHESS_SHAPE, 2)
    batch = a_batch(CHESS_SHAPE, 2, 9)
    batch.features[4, -1] = np.float32(np.nan).view(np.uint32)
    engine.start(batch, 0)
    priors, wdl = engine.finish(0)
    rows = np.repeat(np.arange(9), batch.counts)
    assert np.isnan(wdl).any(axis=1).tolist() == [row == 4 for row in range(9)]
    assert set(rows[np.isnan(priors)]) <= {4}
    engine.close()


def compare_engine(kind: str, sizes: Architecture, game: Game, history: int) -> None:
    """Compare an engine's answers with those of the plain network."""
    network, batch = trained_like(sizes, game, history), a_batch(game, history, 13)
    engine = make_engine(kind, network, game, history)
    engine.start(batch, 0)
    priors, wdl = engine.finish(0)
    engine.close()
    expected_priors, expected_wdl = naive_answers(network, game, history, batch)
    near = 0.06 if "bf" in kind else 1e-3
    assert priors.dtype == (np.float16 if "torch" in kind else np.float32)
    assert wdl.dtype == np.float32
    np.testing.assert_allclose(priors, expected_priors, atol=near / 4, rtol=near)
    np.testing.assert_allclose(wdl, expected_wdl, atol=near / 2 if "bf" in kind else 1e-5)


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize(("game", "history", "sizes"), CASES, ids=NAMES)
def test_an_engine_answers_what_the_plain_network_answers(
    kind: str, game: Game, history: int, sizes: Residual
) -> None:
    compare_engine(kind, sizes, game, history)


@pytest.mark.parametrize(("game", "history", "sizes"), CASES, ids=NAMES)
def test_the_plain_form_answers_many_rows_at_once_as_the_plain_network_does(
    game: Game, history: int, sizes: Residual
) -> None:
    """A GPU runs many rows at once; on a CPU, the same engine runs one row at a time."""
    network, batch = trained_like(sizes, game, history), a_batch(game, history, 13)
    forward = ModuleForward(fold(network), game, history, "cpu", torch.float32)
    legal = np.full((13, game.max_legal), NO_ACTION, np.int32)
    spread(batch.actions, batch.counts, NO_ACTION, legal)
    with torch.inference_mode():
        priors, wdl = forward(features_tensor(batch.features), torch.from_numpy(legal))
    expected_priors, expected_wdl = naive_answers(network, game, history, batch)
    np.testing.assert_allclose(priors.numpy()[legal != NO_ACTION], expected_priors, atol=1e-3, rtol=1e-3)
    assert not priors.numpy()[legal == NO_ACTION].any()
    np.testing.assert_allclose(wdl, expected_wdl, atol=1e-5)


@pytest.mark.parametrize("kind", ENGINES)
def test_bits_beyond_the_board_change_nothing(kind: str) -> None:
    game = FOUR_SHAPE
    engine = make_engine(kind, trained_like(ODD_TANH, game, 1), game, 1)
    batch = a_batch(game, 1, 5)
    stray = LeafBatch(batch.features | np.uint64(0x7FF << 42), batch.counts, batch.actions)
    for slot, asked in enumerate((batch, stray)):
        engine.start(asked, slot)
    (priors, wdl), (stray_priors, stray_wdl) = engine.finish(0), engine.finish(1)
    engine.close()
    np.testing.assert_array_equal(priors, stray_priors)
    np.testing.assert_array_equal(wdl, stray_wdl)


@pytest.mark.parametrize("kind", ENGINES)
def test_two_batches_in_flight_keep_their_answers_apart(kind: str) -> None:
    game = FOUR_SHAPE
    engine = make_engine(kind, trained_like(ODD_TANH, game, 1), game, 1)
    batches = [a_batch(game, 1, rows, seed=rows) for rows in (9, 5)]
    alone = []
    for batch in batches:
        engine.start(batch, 0)
        alone.append(engine.finish(0))
    for slot, batch in enumerate(batches):
        engine.start(batch, slot)
    for slot in (1, 0):
        priors, wdl = engine.finish(slot)
        np.testing.assert_array_equal(priors, alone[slot][0])
        np.testing.assert_array_equal(wdl, alone[slot][1])
    engine.close()


@pytest.mark.parametrize("kind", ENGINES)
def test_new_weights_answer_as_a_new_engine_with_them_would(kind: str) -> None:
    game = THREE_SHAPE
    old, new = (trained_like(SE_WDL, game, 1, seed) for seed in (1, 2))
    batch = a_batch(game, 1, 6)
    answers = []
    for first, then in ((old, new), (new, None)):
        engine = make_engine(kind, first, game, 1)
        if then is not None:
            engine.set_weights(fold(then))
        engine.start(batch, 0)
        answers.append(engine.finish(0))
        engine.close()
    np.testing.assert_array_equal(answers[0][0], answers[1][0])
    np.testing.assert_array_equal(answers[0][1], answers[1][1])


@pytest.fixture(scope="module")
def inference(tmp_path_factory: pytest.TempPathFactory) -> Inference:
    path = tmp_path_factory.mktemp("weights") / "net.safetensors"
    save(path, trained_like(ODD_TANH, FOUR_SHAPE, 1), WeightsMeta("four_shape", 1, ODD_TANH, version=4))
    found = Inference(FOUR_SHAPE, 1, threads=1, max_rows=40)
    found.load(path)
    return found


def test_a_probe_chooses_a_bucket_as_target(inference: Inference) -> None:
    assert inference.buckets == (1, 4, 8, 16, 32, 40)
    assert inference.target_rows in inference.buckets
    assert inference.target_rows <= inference.max_rows == 40


def test_more_rows_than_the_largest_batch_are_run_in_parts(inference: Inference) -> None:
    batch = a_batch(FOUR_SHAPE, 1, 101)
    priors, wdl = inference.run(batch)
    ends = np.cumsum(batch.counts)
    own_priors, own_wdl = inference.run(batch.split(100)[1])
    np.testing.assert_allclose(priors[ends[99] :], own_priors, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(wdl[100:], own_wdl, atol=1e-6)


def test_no_rows_give_no_answers(inference: Inference) -> None:
    batch = a_batch(FOUR_SHAPE, 1, 1)
    priors, wdl = inference.run(batch.split(0)[0])
    assert (priors.shape, wdl.shape) == ((0,), (0, 3))


def test_bad_weights_leave_the_old_network_in_place(inference: Inference, tmp_path: Path) -> None:
    batch = a_batch(FOUR_SHAPE, 1, 3)
    before = inference.run(batch)
    (tmp_path / "bad").write_bytes(b"no weights")
    with pytest.raises(BadWeights):
        inference.load(tmp_path / "bad")
    after = inference.run(batch)
    np.testing.assert_array_equal(before[0], after[0])
    assert inference.meta is not None
    assert inference.meta.version == 4


@pytest.mark.parametrize("device", ["gpu", "mps", "cuda:x", "cuda:", ""])
def test_a_device_that_there_is_not_is_named(device: str) -> None:
    """The play commands make a sentence of a ValueError."""
    with pytest.raises(ValueError, match=f"there is no device '{device}'"):
        Inference(FOUR_SHAPE, 1, device)


def test_more_batches_than_may_be_in_flight_are_refused(inference: Inference) -> None:
    batch = a_batch(FOUR_SHAPE, 1, 2)
    tickets = [inference.submit(batch) for _ in range(2)]
    with pytest.raises(RuntimeError, match="in flight"):
        inference.submit(batch)
    for ticket in tickets:
        inference.collect(ticket)
    with pytest.raises(RuntimeError, match="not in flight"):
        inference.collect(tickets[0])


def test_batches_that_fail_leave_room_for_the_next(inference: Inference, monkeypatch) -> None:
    def fail(_slot: int) -> None:
        raise MemoryError

    batch = a_batch(FOUR_SHAPE, 1, 2)
    with monkeypatch.context() as broken:
        broken.setattr(inference._engine, "finish", fail)
        for _ in range(3):
            with pytest.raises(MemoryError):
                inference.run(batch)
    inference.run(batch)


def test_running_without_weights_is_an_error_that_says_so() -> None:
    batch = a_batch(FOUR_SHAPE, 1, 2)
    with pytest.raises(RuntimeError, match="no weights are loaded"):
        Inference(FOUR_SHAPE, 1).run(batch)


class SmallDevice(TorchEngine):
    """Refuses larger buckets than its memory holds, as a GPU does when it makes or runs them."""

    most_rows = 6

    def __init__(self, forward: ModuleForward, *, buckets: tuple[int, ...], in_flight: int) -> None:
        if buckets[-1] > 4 * self.most_rows:
            raise torch.cuda.OutOfMemoryError("no room for the buffers")
        super().__init__(forward, buckets=buckets, in_flight=in_flight)

    def start(self, batch: LeafBatch, slot: int) -> None:
        if batch.rows > self.most_rows:
            raise torch.cuda.OutOfMemoryError("no room for the batch")
        super().start(batch, slot)


def on_a_small_device(network: Network, game: Game, history: int, device: str, **options: object) -> Engine:
    del options["threads"], options["on_cuda"]
    forward = ModuleForward(network, game, history, device, torch.float32)
    return SmallDevice(forward, **options)  # type: ignore[arg-type]


def test_a_device_that_is_short_of_memory_gets_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """They shrink to what its memory holds, at the start and later; the answers stay those of the network."""
    network, batch = trained_like(ODD_TANH, FOUR_SHAPE, 1), a_batch(FOUR_SHAPE, 1, 32)
    meta = WeightsMeta(FOUR_SHAPE.name, 1, ODD_TANH)
    whole = Inference(FOUR_SHAPE, 1, threads=1, target_rows=8)
    whole.use(network, meta)
    wanted = whole.run(batch)
    monkeypatch.setattr("net.inference.make_engine", on_a_small_device)
    small = Inference(FOUR_SHAPE, 1, threads=1, max_rows=64, target_rows=8)
    small.use(network, meta)
    assert small.buckets == (1, 4, 8, 16), "32 rows have no room, 16 have when it begins"
    small.submit(batch.split(1)[0])
    with pytest.raises(torch.cuda.OutOfMemoryError):
        small.run(batch)
    small.halve()
    small.halve()
    assert (small.buckets, small.target_rows) == ((1, 4), 4)
    found = small.run(batch)
    np.testing.assert_allclose(found[0], wanted[0], atol=2e-3)
    np.testing.assert_allclose(found[1], wanted[1], atol=2e-3)


def test_a_batch_that_had_no_room_holds_no_memory_while_a_smaller_one_is_made(monkeypatch) -> None:
    """Otherwise a GPU has even less room for the smaller one. The garbage collector is off."""
    made: list[weakref.ref[Slot]] = []
    alive: list[int] = []

    class FullSlot(Slot):
        def start(self, bucket: int) -> None:
            if bucket > 4:
                raise torch.cuda.OutOfMemoryError("no room for the batch")
            super().start(bucket)

    def make(*arguments: object, **options: object) -> Engine:
        alive.append(sum(slot() is not None for slot in made))
        del options["threads"], options["on_cuda"]
        forward = ModuleForward(*arguments, torch.float32)  # type: ignore[arg-type]
        engine = TorchEngine(forward, **options)  # type: ignore[arg-type]
        made.extend(weakref.ref(slot) for slot in engine._slots)
        return engine

    def prepare(inference: Inference) -> None:
        batch = a_batch(FOUR_SHAPE, 1, inference.max_rows)
        inference.collect(inference.submit(batch))

    monkeypatch.setattr("net.torch_engine.Slot", FullSlot)
    monkeypatch.setattr("net.inference.make_engine", make)
    monkeypatch.setattr(Inference, "_prepare", prepare)
    gc.disable()
    try:
        Inference(FOUR_SHAPE, 1, threads=1, max_rows=16, target_rows=8).use(
            trained_like(ODD_TANH, FOUR_SHAPE, 1), WeightsMeta(FOUR_SHAPE.name, 1, ODD_TANH)
        )
    finally:
        gc.enable()
    assert alive == [0, 0, 0], "made for 16, 8 and 4 rows"


def test_the_evaluator_sleeps_while_a_gpu_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `blocking`, `synchronize` spins on a core for each GPU."""
    events: list[dict[str, bool]] = []
    monkeypatch.setattr("torch.cuda.Stream", lambda _: None)
    monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: None)
    monkeypatch.setattr("torch.cuda.Event", lambda **options: events.append(options))
    monkeypatch.setattr("net.torch_engine.Buffers.make", lambda *_, **__: None)
    forward = ModuleForward.__new__(ModuleForward)
    forward.device, forward.actions = torch.device("cuda"), 9
    forward.feature_words, forward.max_legal = 1, 7
    Slot(forward, 4)
    assert events == [{"blocking": True}]


def test_a_device_without_room_for_one_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("net.inference.make_engine", on_a_small_device)
    monkeypatch.setattr(SmallDevice, "most_rows", 0)
    with pytest.raises(torch.cuda.OutOfMemoryError, match="one row"):
        Inference(FOUR_SHAPE, 1, threads=1, max_rows=8, target_rows=8).use(
            trained_like(ODD_TANH, FOUR_SHAPE, 1), WeightsMeta(FOUR_SHAPE.name, 1, ODD_TANH)
        )
