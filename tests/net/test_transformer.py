"""The transformer: what it computes, that it learns, and that all engines give the same answers."""

import numpy as np
import pytest
import torch
from net_shapes import CHESS_SHAPE, FOUR_SHAPE, GO_SHAPE, HANDS_SHAPE, ROW_SHAPE, THREE_SHAPE, naive_planes
from test_inference import KINDS, a_batch, compare_engine, trained_like

from azselfplay.games.spec import Game
from net.architectures.network import Network
from net.architectures.registry import architecture_from_json, named
from net.architectures.transformer import Attention, RelativeBias, Transformer

torch.set_num_threads(1)

SIZES = Transformer(2, 24, 3, 32, value_channels=2, value_hidden=16, value_head="wdl")
CASES = [(CHESS_SHAPE, 2), (FOUR_SHAPE, 1), (THREE_SHAPE, 1), (GO_SHAPE, 1), (HANDS_SHAPE, 2), (ROW_SHAPE, 1)]
GAMES = pytest.mark.parametrize(("game", "history"), CASES, ids=[game.name for game, _ in CASES])


def scrambled(game: Game, history: int) -> Network:
    return trained_like(SIZES, game, history)


@pytest.mark.parametrize(
    ("name", "heads", "hidden"), [("tf7x96", 3, 256), ("tf1x16", 1, 64), ("tf2x100", 2, 288)]
)
def test_sizes_are_a_name(name: str, heads: int, hidden: int) -> None:
    """Heads of about 32 numbers divide the width evenly."""
    sizes = named(name)
    assert isinstance(sizes, Transformer)
    assert (sizes.name, sizes.heads, sizes.hidden) == (name, heads, hidden)
    assert architecture_from_json(sizes.to_json()) == sizes


def test_heads_that_do_not_share_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="5 heads cannot share 24 channels"):
        Transformer(2, 24, 5, 32)


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (3, 3), (6, 7), (19, 2)])
def test_the_bias_of_two_cells_depends_on_the_way_between_them_alone(rows: int, cols: int) -> None:
    """Every displacement on the board has a number of its own."""
    bias = RelativeBias(2, rows, cols)
    torch.nn.init.normal_(bias.table)
    found: dict[tuple[int, int], list[float]] = {}
    answers = bias().detach().tolist()
    for a in range(rows * cols):
        for b in range(rows * cols):
            way = (b // cols - a // cols, b % cols - a % cols)
            numbers = [head[a][b] for head in answers]
            assert found.setdefault(way, numbers) == numbers
    assert len({tuple(numbers) for numbers in found.values()}) == (2 * rows - 1) * (2 * cols - 1)


def test_attention_is_what_loops_say() -> None:
    torch.manual_seed(2)
    attention = Attention(SIZES, 2, 3).double()
    torch.nn.init.normal_(attention.bias.table)
    x = torch.randn(1, 6, 24, dtype=torch.float64)
    q, k, v = (attention.look.weight.detach().numpy() @ x[0].numpy().T).reshape(3, 3, 8, 6)
    bias, found = attention.bias().detach().numpy(), np.zeros((6, 24))
    for head in range(3):
        for cell in range(6):
            scores = [
                q[head, :, cell] @ k[head, :, other] / np.sqrt(8) + bias[head, cell, other]
                for other in range(6)
            ]
            shares = np.exp(scores) / np.exp(scores).sum()
            found[cell, 8 * head : 8 * head + 8] = v[head] @ shares
    expected = found @ attention.out.weight.detach().numpy().T
    np.testing.assert_allclose(attention(x)[0].detach().numpy(), expected, atol=1e-12)


@GAMES
def test_gradients_reach_every_parameter(game: Game, history: int) -> None:
    network, batch = scrambled(game, history).train(), a_batch(game, history, 4)
    policy, value = network(torch.from_numpy(naive_planes(batch.features, game, history)))
    (policy.square().sum() + value.square().sum()).backward()
    silent = [name for name, one in network.named_parameters() if one.grad is None or not one.grad.any()]
    assert silent == []


def test_cells_of_an_empty_board_are_told_apart() -> None:
    policy, _ = scrambled(THREE_SHAPE, 1)(torch.zeros(1, 2, 3, 3))
    assert len(set(policy[0].tolist())) == 9


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("kernels")])
@GAMES
def test_an_engine_answers_what_the_plain_network_answers(kind: str, game: Game, history: int) -> None:
    compare_engine(kind, SIZES, game, history)
