"""Sparse networks give one answer, whichever implementation computes it."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from sparse_positions import SPARSE_GAMES, positions, saved, sparse_network

from azselfplay.games import get_game
from net.architectures.sparse import Inputs, SparseNetwork, logits_of, row_sums
from net.inference import Inference, SparseTorchEngine
from net.sparse import Sparse, SparseInference, as_vector, features_of, kernels_for, shapes_of
from net.weights import BadWeights, WeightsMeta, load, save
from protocol.frames import LeafBatch

every_sparse_game = pytest.mark.parametrize("name", SPARSE_GAMES)
CLOSE = 2e-6


def row_of(batch: LeafBatch, row: int) -> LeafBatch:
    return batch.split(row + 1)[0].split(row)[1]


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


def plain_answer(
    network: SparseNetwork, name: str, batch: LeafBatch, row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slow twin's answer for one position, in float64 and straight from the formula."""
    game, one = get_game(name), row_of(batch, row)
    features = features_of(game)
    active, rows = (
        np.zeros(features.most_active, np.int32),
        np.zeros(game.max_legal * features.tables, np.int32),
    )
    found = features.describe(one.features[0], 1, one.actions, len(one.actions), active, rows)
    tensor = {key: value.double().numpy() for key, value in network.state_dict().items()}
    table = tensor["rows"].copy()
    for feature, shared in enumerate([] if features.shared is None else features.shared):
        table[feature] += sum(tensor["shared_rows"][number] for number in shared if number >= 0)
    hidden = np.maximum(table[active[:found]].sum(0) + tensor["bias"], 0)
    value = np.maximum(tensor["value.weight"] @ hidden + tensor["value.bias"], 0)
    vector, logits = tensor["policy.weight"] @ hidden, []
    for numbers in rows[: len(one.actions) * features.tables].reshape(-1, features.tables):
        there = numbers[numbers < features.action_rows]
        logits.append(tensor["action_rows"][there].sum(0) @ vector + tensor["action_biases"][there].sum())
    return softmax(np.array(logits)), softmax(tensor["wdl.weight"] @ value + tensor["wdl.bias"])


@every_sparse_game
def test_the_kernel_computes_the_formula(name: str, tmp_path: Path) -> None:
    network, batch = sparse_network(name), positions(name)
    assert isinstance(network, SparseNetwork)
    player = SparseInference(name, 1)
    player.load(saved(tmp_path / "net", name, network))
    ends = np.cumsum(batch.counts, dtype=np.int64)
    priors, wdl = player.answers(batch)
    for row in range(batch.rows):
        expected_priors, expected_wdl = plain_answer(network, name, batch, row)
        np.testing.assert_allclose(wdl[row], expected_wdl, atol=CLOSE)
        np.testing.assert_allclose(
            priors[ends[row] - batch.counts[row] : ends[row]], expected_priors, atol=CLOSE
        )


@pytest.mark.parametrize("columns", [0, 2])
def test_a_game_may_share_no_rows(columns: int) -> None:
    game = get_game("connect_four")
    own = dataclasses.replace(game.sparse, shared=np.full((game.sparse.features, columns), -1, np.int32))
    tensors = {name: np.ones(shape, np.float32) for name, shape in shapes_of(own, Sparse("")).items()}
    vector = as_vector(tensors, dataclasses.replace(game, sparse=own), Sparse(""))
    assert vector.max() == 1


@every_sparse_game
def test_an_answer_has_the_same_bits_alone_and_in_any_batch(name: str, tmp_path: Path) -> None:
    batch, player = positions(name), SparseInference(name, 1)
    player.load(saved(tmp_path / "net", name, sparse_network(name)))
    inference = Inference(name, 1, "cpu", threads=2, target_rows=8)
    inference.load(tmp_path / "net")
    priors, wdl = player.answers(batch)
    alone = [player.answers(row_of(batch, row)) for row in range(batch.rows)]
    np.testing.assert_array_equal(np.concatenate([one[0] for one in alone]), priors)
    np.testing.assert_array_equal(np.concatenate([one[1] for one in alone]), wdl)
    for found, expected in zip(inference.run(batch), (priors, wdl), strict=True):
        np.testing.assert_array_equal(found, expected)
    inference.close()


@every_sparse_game
def test_torch_computes_the_same_on_its_devices(name: str, tmp_path: Path) -> None:
    network, batch, player = sparse_network(name), positions(name), SparseInference(name, 1)
    player.load(saved(tmp_path / "net", name, network))
    assert isinstance(network, SparseNetwork)
    engine = SparseTorchEngine(network, "cpu")
    engine.start(batch, 0)
    for found, expected in zip(engine.finish(0), player.answers(batch), strict=True):
        np.testing.assert_allclose(found, expected, atol=CLOSE)


def made_up_inputs(name: str) -> Inputs:
    network, batch = sparse_network(name), positions(name)
    assert isinstance(network, SparseNetwork)
    return network.inputs_of(batch.features, batch.counts, batch.actions)


@every_sparse_game
def test_sums_of_rows_and_their_gradients_are_those_of_torch(name: str) -> None:
    inputs, kernels = made_up_inputs(name), kernels_for(name, Sparse().widths)
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(features_of(get_game(name)).features, 256, generator=generator, requires_grad=True)
    sums = row_sums(kernels, table, inputs.active, inputs.begins)
    weights = torch.randn(sums.shape, generator=generator)
    expected = F.embedding_bag(
        inputs.active.long(), table, inputs.begins, mode="sum", include_last_offset=True
    )
    torch.testing.assert_close(sums, expected)
    found = torch.autograd.grad((sums * weights).sum(), table)[0]
    torch.testing.assert_close(found, torch.autograd.grad((expected * weights).sum(), table)[0])


@every_sparse_game
def test_logits_of_actions_and_their_gradients_are_those_of_torch(name: str) -> None:
    inputs, kernels = made_up_inputs(name), kernels_for(name, Sparse().widths)
    generator, rows = torch.Generator().manual_seed(1), features_of(get_game(name)).action_rows
    vectors, table, biases = (
        torch.randn(shape, generator=generator, requires_grad=True)
        for shape in ((len(inputs.begins) - 1, 64), (rows, 64), (rows,))
    )
    logits = logits_of(kernels, vectors, table, biases, inputs)
    numbers = inputs.rows.long()
    sums, offsets = (F.pad(one, (0,) * (2 * one.dim() - 1) + (1,))[numbers].sum(1) for one in (table, biases))
    expected = (sums * vectors[inputs.of]).sum(1) + offsets
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-5)
    weights = torch.randn(logits.shape, generator=generator)
    found = torch.autograd.grad((logits * weights).sum(), (vectors, table, biases))
    wanted = torch.autograd.grad((expected * weights).sum(), (vectors, table, biases))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


def test_weights_for_other_features_are_refused_by_name(tmp_path: Path) -> None:
    """Another version of the features has rows that mean something else, though all shapes fit."""
    network = sparse_network("chess")
    assert isinstance(network, SparseNetwork)
    other = dataclasses.replace(network.architecture, features="chess-attacks-0")
    save(tmp_path / "net", network, WeightsMeta("chess", 1, other))
    for read in (
        SparseInference("chess", 1).load,
        lambda path: load(path, game=get_game("chess"), history=1),
    ):
        with pytest.raises(BadWeights, match="read the features chess-attacks-0, and chess now has"):
            read(tmp_path / "net")


def test_a_player_refuses_weights_that_it_cannot_use(tmp_path: Path) -> None:
    player, network = SparseInference("chess", 1), sparse_network("chess")
    player.load(saved(tmp_path / "good", "chess", network, version=3))
    before = player.weights
    with torch.no_grad():
        network.bias[0] = torch.nan
    others = {
        "not finite": saved(tmp_path / "nan", "chess", network),
        "not of a sparse network": tmp_path / "tiny",
        "are of sparse128": saved(tmp_path / "narrow", "chess", sparse_network("chess", "sparse128")),
    }
    tiny = sparse_network("chess", "tiny")
    save(tmp_path / "tiny", tiny, WeightsMeta("chess", 1, tiny.architecture))
    for says, file in others.items():
        with pytest.raises(BadWeights, match=says):
            player.load(file)
    assert player.weights is before
    assert player.version == 3
