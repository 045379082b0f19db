"""Mistakes of a search that keep a run from learning, without any error: docs/pitfalls.md."""

import asyncio

import chess
import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import Answer, Leaf, LeafByLeaf, searched, uniform
from naive_mcts import hashed_evaluation

from azselfplay.games import get_game
from azselfplay.games.playouts import replay
from azselfplay.games.spec import Game
from azselfplay.games.tic_tac_toe import knowledge as tic_tac_toe
from azselfplay.search.evaluator import UniformEvaluator, evaluate
from azselfplay.search.forest import Forest
from azselfplay.search.leaf_parallel import Limits, ParallelTree, search_parallel
from azselfplay.search.mcts import choose_action
from azselfplay.search.result import SearchResult
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from bench.random_games import random_game
from protocol.settings import SelfPlaySettings

CHESS, FOUR, TIC = (get_game(name) for name in ("chess", "connect_four", "tic_tac_toe"))
QUIET = self_play(simulations=64, root_noise=0.0, temperature_plies=0, history=1)
ROOTS = ("puct", "gumbel")


def tree_at(game: Game, settings: SelfPlaySettings, start: str = "") -> SearchTree:
    tree = SearchTree(Forest(game, resolve(settings, game)), np.random.default_rng(3))
    tree.reset(game.notation.state_from_text(start))
    return tree


class Material(LeafByLeaf):
    """Its value is material, own minus the other's; it prefers no move."""

    def answer(self, leaf: Leaf) -> Answer:
        men = np.array([int(word).bit_count() for word in leaf.features[:12]])
        worth = np.array([1, 3, 3, 5, 9, 0])
        return uniform(leaf)[0], float(np.tanh((men[:6] - men[6:]) @ worth / 5))


class Noise(LeafByLeaf):
    """Its values are a little wrong everywhere; it prefers no move."""

    def answer(self, leaf: Leaf) -> Answer:
        return uniform(leaf)[0], 0.2 * hashed_evaluation(leaf.features, leaf.actions)[1]


def both_colours(fen: str) -> list[str]:
    return [fen, chess.Board(fen).mirror().fen()]


def random_positions(game: Game, seed: int, every: int) -> list[str]:
    """Return texts of positions of a random game."""
    positions = replay(game, random_game(game, np.random.default_rng(seed)).actions.tolist())
    return [game.notation.state_to_text(state) for state in positions[:-1:every]]


# ---- the value of what was never visited --------------------------------------------------------


def visited_shares(settings: SelfPlaySettings) -> list[float]:
    """Return the shares of legal moves that are visited, with twice as many simulations as moves, at
    positions of random games."""
    shares = []
    for game, every in ((CHESS, 40), (FOUR, 5)):
        for text in random_positions(game, 1, every):
            legal = len(tree_at(game, settings, text).legal_actions())
            tree = tree_at(game, varied(settings, simulations=2 * legal), text)
            result = searched(tree, UniformEvaluator())
            if not len(tree.view_and_wins()[1]):
                shares.append(len(result.actions) / legal)
    return shares


def test_self_play_without_knowledge_looks_at_every_legal_move_anywhere_in_a_game() -> None:
    """The defaults are used, with noise. Where unvisited moves counted as lost, a run ended in draws."""
    shares = visited_shares(SelfPlaySettings(history=1))
    assert len(shares) > 10
    assert shares == [1.0] * len(shares)


# ---- whose value it is --------------------------------------------------------------------------


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("fen", both_colours("4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1"))
def test_a_queen_that_may_be_taken_is_taken(fen: str, root: str) -> None:
    """One ply deep: the value after the move belongs to the opponent."""
    tree = tree_at(CHESS, varied(QUIET, selection=root), fen)
    action = choose_action(searched(tree, Material()), 0, tree.settings, np.random.default_rng(0))
    board = chess.Board(fen)
    assert board.is_capture(chess.Move.from_uci(CHESS.notation.action_to_text(tree.state, action)))


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("fen", both_colours("4k3/2p5/3p4/8/8/8/3Q4/4K3 w - - 0 1"))
def test_a_queen_is_not_given_for_a_pawn(fen: str, root: str) -> None:
    """Two plies deep: the opponent's best reply counts, not the worst one."""
    tree = tree_at(CHESS, varied(QUIET, selection=root, simulations=400), fen)
    action = choose_action(searched(tree, Material()), 0, tree.settings, np.random.default_rng(0))
    board = chess.Board(fen)
    assert not board.is_capture(chess.Move.from_uci(CHESS.notation.action_to_text(tree.state, action)))


@pytest.mark.parametrize("fen", both_colours("k7/8/8/2Q5/8/8/8/7K w - - 0 1"))
def test_a_stalemate_is_no_win_for_who_gives_it(fen: str) -> None:
    """The queen's side expects to win, and a stalemate is worth nothing to it."""
    tree = tree_at(CHESS, varied(QUIET, simulations=400), fen)
    result = searched(tree, Material())
    visits = dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True))
    stalemates = []
    for action in tree.legal_actions().tolist():
        board = chess.Board(fen)
        board.push_uci(CHESS.notation.action_to_text(tree.state, action))
        stalemates += [action] if board.is_stalemate() else []
    assert len(stalemates) == 2
    assert max(visits[action] for action in stalemates) < 0.5 * np.mean(list(visits.values()))
    assert result.value > 0.5


# ---- searching more must help -------------------------------------------------------------------


class Truth(LeafByLeaf):
    """Knows the value of every position of tic-tac-toe, and prefers no move."""

    def answer(self, leaf: Leaf) -> Answer:
        value = tic_tac_toe.solve()[int(leaf.features[0]), int(leaf.features[1])].value
        return uniform(leaf)[0], 0.8 * value


def parallel_action(start: str, simulations: int) -> int:
    """Search with up to four leaves in flight, as an engine does, and return the action."""
    settings = resolve(varied(QUIET, simulations=1), TIC)
    tree = ParallelTree(TIC, settings, np.random.default_rng(0), max_nodes=500, max_leaves=4)
    tree.reset(TIC.notation.state_from_text(start))

    async def main() -> None:
        answer = await evaluate(Truth(), tree.root_leaf())
        tree.expand_root(answer.priors, float(answer.values[0]))
        await search_parallel(tree, Truth(), Limits(simulations=simulations))

    asyncio.run(main())
    edges = tree.edges_of(0)
    return int(edges["action"][np.argmax(edges["visits"])])


def one_by_one_action(start: str, simulations: int, root: str) -> int:
    tree = tree_at(TIC, varied(QUIET, simulations=simulations, selection=root), start)
    return choose_action(searched(tree, Truth()), 0, tree.settings, np.random.default_rng(0))


@pytest.mark.parametrize("kind", [*ROOTS, "parallel"])
def test_more_simulations_make_fewer_mistakes(kind: str) -> None:
    """With a network whose values are right, 64 simulations almost never err, and one simulation often
    does."""
    matters = [one for one in tic_tac_toe.solve().values() if one.matters][::25]
    errors = {1: 0, 64: 0}
    for one in matters:
        text = TIC.notation.state_to_text(replay(TIC, one.moves)[-1])
        for simulations in errors:
            played = (
                parallel_action(text, simulations)
                if kind == "parallel"
                else one_by_one_action(text, simulations, kind)
            )
            errors[simulations] += played not in one.keeps
    assert errors[64] <= 0.02 * len(matters)
    assert errors[1] > 0.15 * len(matters)


def divergence(result: SearchResult, legal: int) -> float:
    """Return KL(target || uniform prior), in nats."""
    shares = result.visits / result.visits.sum()
    return float((shares * np.log(shares * legal)).sum())


def test_a_search_of_32_teaches_something_in_chess() -> None:
    """Where a queen hangs, the KL divergence of target and prior is not near 0. With PUCT it grows with the
    simulations; with as few, Gumbel's improved policy teaches more."""
    fen = "r3k2r/pp3ppp/2n2n2/3q4/4P3/2N2N2/PP3PPP/R3K2R w KQkq - 0 1"
    found = {}
    for root, simulations in (("puct", 32), ("puct", 64), ("gumbel", 32)):
        tree = tree_at(CHESS, varied(QUIET, selection=root, simulations=simulations), fen)
        found[root, simulations] = divergence(searched(tree, Material()), len(tree.legal_actions()))
    assert 0.1 < found["puct", 32] < found["puct", 64]
    assert found["gumbel", 32] > found["puct", 32]


def test_gumbel_targets_are_not_sharpened_noise() -> None:
    """With meaningless values, our scale leaves the target broad; the scale of 1.0, which is reported to
    sharpen noise in chess, does not. At least sixteen moves are considered by default."""
    assert SelfPlaySettings().gumbel.considered >= 16
    sharpest = []
    for scale in (SelfPlaySettings().gumbel.c_scale, 1.0):
        settings = varied(QUIET, selection="gumbel", simulations=32, c_scale=scale)
        tops = []
        for text in random_positions(CHESS, 2, 9):
            tree = tree_at(CHESS, settings, text)
            result = searched(tree, Noise())
            if not len(tree.view_and_wins()[1]):
                tops.append(result.visits.max() / result.visits.sum())
        sharpest.append(float(np.mean(tops)))
    ours, sharp = sharpest
    assert ours < 0.2
    assert sharp > 0.4


# ---- nothing is shared between positions that only look alike -----------------------------------


def test_every_new_position_is_asked_for_even_where_moves_transpose() -> None:
    """There is no cache that could ignore repetitions or the fifty-move clock: each simulation evaluates a
    leaf."""
    evaluator = UniformEvaluator()
    searched(tree_at(CHESS, varied(QUIET, simulations=700)), evaluator)
    assert evaluator.rows == 701
