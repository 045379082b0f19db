"""Heads for training only: weights files keep them, and play ignores them."""

import json

import numpy as np
import pytest
import torch
from net_shapes import CHESS_SHAPE, FOUR_SHAPE, random_words

from azselfplay.games.spec import Game
from net.architectures.network import Network, build, fold, with_heads
from net.architectures.registry import TRAINING_HEADS, architecture_from_json, name_of, named
from net.architectures.residual import Residual
from net.inference import Inference
from net.planes import PlaneShape, features_tensor, unpack
from net.weights import WeightsMeta, from_bytes, to_bytes

PLAIN = Residual(1, 8, value_channels=2, value_hidden=8, value_head="wdl")
ALL = PLAIN.with_heads(TRAINING_HEADS)
GAMES = pytest.mark.parametrize("game", [CHESS_SHAPE, FOUR_SHAPE], ids=lambda game: game.name)


def network(architecture: Residual, game: Game, seed: int = 3) -> Network:
    torch.manual_seed(seed)
    return build(architecture, game, 1).eval()


def planes(game: Game) -> torch.Tensor:
    words = random_words(game, 1, 5, np.random.default_rng(0))
    return unpack(features_tensor(words), PlaneShape.of(game, 1))


@GAMES
def test_heads_change_nothing_in_what_is_played(game: Game) -> None:
    plain, both = network(PLAIN, game), network(ALL, game)
    with torch.no_grad():
        for ours, theirs in zip(plain(planes(game)), both(planes(game)), strict=True):
            assert torch.equal(ours, theirs)
    folded, of_both = fold(plain), fold(both)
    assert folded.architecture == of_both.architecture == PLAIN
    tensors, of_both_tensors = folded.state_dict(), of_both.state_dict()
    assert tensors.keys() == of_both_tensors.keys()
    assert all(torch.equal(tensor, of_both_tensors[name]) for name, tensor in tensors.items())


@GAMES
def test_outputs_of_all_heads(game: Game) -> None:
    with torch.no_grad():
        every, plain = (network(one, game).all_heads(planes(game)) for one in (ALL, PLAIN))
    shapes = {name: tuple(outputs.shape) for name, outputs in every.training.items()}
    assert shapes == {"ownership": (5, game.cells)}
    assert plain.training == {}
    assert torch.equal(every.policy, plain.policy)


def test_the_last_layer_of_a_value_is_computed_in_float32_in_training_too() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        found = network(ALL, FOUR_SHAPE).all_heads(planes(FOUR_SHAPE))
    assert found.policy.dtype == torch.bfloat16
    assert found.value.dtype == torch.float32


def test_weights_files_keep_the_heads() -> None:
    both = network(ALL, FOUR_SHAPE)
    back, meta = from_bytes(to_bytes(both, WeightsMeta("four_shape", 1, ALL)), game=FOUR_SHAPE, history=1)
    assert meta.architecture == ALL
    assert all(torch.equal(tensor, back.state_dict()[name]) for name, tensor in both.state_dict().items())
    fields = json.loads(PLAIN.to_json())
    for heads in (["a_head"], 1, "ownership", {"ownership": 1}):
        with pytest.raises(ValueError, match="training_heads must be a list of some of ownership"):
            architecture_from_json(json.dumps(fields | {"training_heads": heads}))


def test_name_is_that_of_what_is_played() -> None:
    assert name_of(named("4x64").with_heads(["ownership"])) == "4x64"


def test_heads_are_added_and_dropped() -> None:
    plain = network(PLAIN, FOUR_SHAPE)
    both = with_heads(plain, FOUR_SHAPE, 1, TRAINING_HEADS)
    assert both.architecture == ALL
    again = with_heads(both, FOUR_SHAPE, 1, ())
    assert again.architecture == PLAIN
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, both.state_dict()[name])
        assert torch.equal(tensor, again.state_dict()[name])
    assert with_heads(plain, FOUR_SHAPE, 1, ()) is plain


def test_engine_is_kept_when_heads_come() -> None:
    """The trainer's first network with heads takes the place of the server's without them."""
    inference = Inference(FOUR_SHAPE, 1, "cpu", threads=1)
    inference.use(network(PLAIN, FOUR_SHAPE), WeightsMeta("four_shape", 1, PLAIN))
    engine = inference._engine
    inference.use(network(ALL, FOUR_SHAPE, seed=4), WeightsMeta("four_shape", 1, ALL, version=1))
    assert inference._engine is engine
    inference.close()
