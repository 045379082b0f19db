"""Samples of positions one move beside stored games in which the side to move wins at once."""

from itertools import groupby, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_sampler import naive_symmetry, policy_of
from naive_verify import decided, legal_and_end, positions_of
from test_chess_targets import hand_made

from azselfplay.games import get_game
from azselfplay.games.spec import Game, State, Symmetry
from bench.random_games import random_game
from protocol.records import GameRecord
from trainer.sampler import Sampler
from trainer.sampler_kernel import Draws
from trainer.window import Window

TIC_TAC_TOE, CONNECT_FOUR, CHESS, DOTS = map(
    get_game, ("tic_tac_toe", "connect_four", "chess", "dots_and_boxes_2x2")
)
SAMPLERS = {one.name: Sampler(one, one.history, symmetric=True) for one in (TIC_TAC_TOE, CONNECT_FOUR, DOTS)}


def naive_win(game: Game, states: list[State], move: int) -> tuple[list[State], dict[int, float]] | None:
    """Return `states` and the position after the legal move numbered `move`, with the share of each of its
    legal actions, if the side to move wins at once there; else None."""
    legal, _ = legal_and_end(game, states)
    after = [*states, _played(game, states[-1], legal[move % len(legal)])]
    replies, end = legal_and_end(game, after)
    wins = [] if end or decided(game, after) else [reply for reply in replies if _wins(game, after, reply)]
    return (after, {reply: (reply in wins) / len(wins) for reply in replies}) if wins else None


def _played(game: Game, state: State, action: int) -> State:
    after = np.zeros_like(state)
    game.rules.play(state, action, after)
    return after


def _wins(game: Game, states: list[State], action: int) -> bool:
    after = _played(game, states[-1], action)
    end = decided(game, [*states, after])
    mover, next_mover = (int(game.rules.side_to_move(state)) for state in (states[-1], after))
    value = game.end_reasons[end].value if end else 0
    return (value if mover == next_mover else -value) == 1


def window_of(game: Game, records: list[GameRecord]) -> Window:
    window = Window(game, 1000)
    for record in records:
        window.add(record)
    return window


def random_window(game: Game, seed: int, games: int = 3) -> tuple[Window, list[GameRecord]]:
    rng = np.random.default_rng(seed)
    records = [random_game(game, rng, simulations=30, targets=0.7) for _ in range(games)]
    return window_of(game, records), records


def turned(game: Game, words: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features through symmetry `number`, and where it moves each action."""
    if number == 0:
        return words, np.arange(game.actions)
    symmetry: Symmetry = game.symmetries[number - 1]
    return naive_symmetry(game, words, symmetry, game.history), symmetry.actions


@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR, DOTS], ids=lambda game: game.name)
@given(
    seed=st.integers(0, 1000),
    draws=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 40)), min_size=1, max_size=20),
    wanted=st.lists(st.integers(0, 7), min_size=1, max_size=8),
)
def test_agrees_with_the_slow_twin(
    game: Game, seed: int, draws: list[tuple[int, int]], wanted: list[int]
) -> None:
    """In dots-and-boxes players move twice in a row, and a game is won before it ends."""
    window, records = random_window(game, seed)
    beside = [(record, ply) for record in records for ply in range(record.plies)]
    chosen = [at % len(beside) for at, _ in draws]
    symmetries = [number % (len(game.symmetries) + 1) for number in wanted]
    columns = (chosen, [move for _, move in draws], symmetries)
    samples = SAMPLERS[game.name].make_wins(window, Draws(*(np.array(one, np.int64) for one in columns)))
    found = []
    for at, run in groupby(zip(chosen, draws, strict=True), key=lambda one: one[0]):
        states = positions_of(game, beside[at][0])[: beside[at][1] + 1]
        # Of one position, no more moves are tried than it has.
        for _, (_, move) in islice(run, len(legal_and_end(game, states)[0])):
            found += [one] if (one := naive_win(game, states, move)) else []
    found = found[: len(wanted)]
    assert len(samples.classes) == len(found)
    for row, (states, policy) in enumerate(found):
        words = np.zeros(game.feature_words(game.history), np.uint64)
        game.rules.encode(np.array(states), len(states), game.history, words)
        features, actions = turned(game, words, symmetries[row])
        assert samples.packed_features[row].tolist() == features.tolist()
        shares = {int(actions[key]): share for key, share in policy.items()}
        assert policy_of(samples, row) == pytest.approx(shares)
    assert (samples.classes == 0).all()
    assert (samples.root_values == 1).all()
    assert (samples.plies_left == 1).all()
    assert not samples.ends.any()
    assert (samples.end_values == 1).all()


def test_a_blunder_that_was_not_played_is_found_in_chess() -> None:
    """After 1. f3 e5 only 2. g4 allows a mate, and only by one move."""
    window = window_of(CHESS, [hand_made("", ["f2f3", "e7e5", "e2e4"], "ply_cap", 0, 3)])
    moves = np.arange(30)  # each of them once
    draws = Draws(np.full(30, 2), moves, np.zeros(30, np.int64))
    samples = Sampler(CHESS, CHESS.history).make_wins(window, draws)
    (best,) = samples.actions[samples.shares == 1]
    fools_mate = "rnbqkbnr/pppp1ppp/8/4p3/6P1/5P2/PPPPP2P/RNBQKBNR b KQkq - 0 2"
    state = CHESS.notation.state_from_text(fools_mate)
    assert best == CHESS.notation.action_from_text(state, "d8h4")
    assert len(samples.shares) == 30


@pytest.mark.parametrize(("clock", "found"), [(98, True), (99, False)])
def test_where_fifty_moves_have_ended_the_game_nobody_wins(clock: int, found: bool) -> None:
    """After any move of White's bishop Black could mate, unless that move was the hundredth."""
    window = window_of(CHESS, [hand_made(f"6k1/8/8/8/8/6q1/5r2/B6K w - - {clock} 90", ["a1b2"], "x", 0, 1)])
    draws = Draws(np.zeros(4, np.int64), np.arange(4), np.zeros(4, np.int64))
    assert bool(len(Sampler(CHESS, CHESS.history).make_wins(window, draws).classes)) == found


def test_a_share_of_the_batch_is_made_of_them_and_the_rest_drawn() -> None:
    window, _ = random_window(CONNECT_FOUR, 1, games=20)
    samples = SAMPLERS["connect_four"].sample(window, np.random.default_rng(1), 200, wins_share=0.25)
    assert len(samples.classes) == len(samples.packed_features) == 200
    assert samples.policy_only is not None
    assert samples.policy_only.tolist() == [0] * 150 + [1] * 50
    assert (samples.plies_left[150:] == 1).all()
    assert (samples.plies_left[:150] > 1).any()
    assert np.unique(samples.rows).tolist() == list(range(200))
    begins = np.flatnonzero(np.diff(samples.rows, prepend=-1))
    assert np.add.reduceat(samples.shares, begins) == pytest.approx(1)


def test_where_there_are_none_the_whole_batch_is_drawn() -> None:
    window = window_of(CHESS, [hand_made("", ["e2e4"], "ply_cap", 0, 1)])
    samples = Sampler(CHESS, CHESS.history).sample(window, np.random.default_rng(1), 8, wins_share=0.5)
    assert samples.classes.tolist() == [1] * 8


@pytest.mark.parametrize(("number", "symmetry"), [(-1, 0), (10**6, 0), (0, 9), (0, -1)])
def test_what_is_not_there_is_refused(number: int, symmetry: int) -> None:
    window, _ = random_window(CONNECT_FOUR, 1)
    draws = Draws(np.array([number]), np.array([0]), np.array([symmetry]))
    with pytest.raises(IndexError):
        SAMPLERS["connect_four"].make_wins(window, draws)
