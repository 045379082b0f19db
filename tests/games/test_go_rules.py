"""Go: known counts of sequences and positions, and games compared with the twin."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_games import assert_goes_as_in_the_twin
from naive_go import NaiveGo
from perft import perft
from scaled_examples import scaled

from azselfplay.games import get_game
from azselfplay.games.go import GoRules, game_of
from azselfplay.games.go.rules import owners_of
from azselfplay.games.playouts import bits, features, legal, replay
from azselfplay.games.spec import NO_ROOT, Game

PERFT = {
    "go_2x2": (5, 21, 68, 156, 316, 604, 1088),
    "go_2x2_situational": (5, 21, 68, 180, 428, 860, 1704),
    "go_3x3": (10, 91, 738, 5281, 33384, 180768),
    "go_4x4": (17, 273, 4112, 57984),
    "go_5x5": (26, 651, 15650, 361041),
    "go_5x5_situational": (26, 651, 15650, 361233),
}
"""Numbers of sequences of 1, 2, ... moves: two passes end a game, suicide is allowed."""
LEGAL_POSITIONS = {2: 57, 3: 12675}
"""Numbers of boards without a chain that has no liberty (Tromp and Farneback, 2006); 1 x 1 is no game
here."""
VARIANTS = (
    GoRules(2, superko="situational"),
    GoRules(3, 1, "simple"),
    GoRules(5, superko="situational", suicide=False),
    GoRules(9, komi=-3),
)
"""They cover each kind of board and each rule; most of them are compiled for other tests too."""


@pytest.mark.parametrize(
    "name",
    ["go_2x2", "go_2x2_situational", "go_5x5"]
    + [pytest.param(one, marks=pytest.mark.nightly) for one in ("go_3x3", "go_4x4", "go_5x5_situational")],
)
def test_sequences_of_moves_are_as_many_as_known(name: str) -> None:
    game = get_game(name)
    start = game.notation.state_from_text("")
    counts = [perft(game, start, depth, ends=True) for depth in range(1, len(PERFT[name]) + 1)]
    assert counts == [*PERFT[name]]


@pytest.mark.parametrize("size", LEGAL_POSITIONS)
def test_legal_boards_are_as_many_as_known(size: int) -> None:
    """The notation accepts exactly these boards."""
    game, found = game_of(GoRules(size)), 0
    for letters in itertools.product(".xo", repeat=size * size):
        rows = ["".join(letters[row * size : (row + 1) * size]) for row in range(size)]
        try:
            game.notation.state_from_text(f"{'/'.join(rows)} x")
        except ValueError:
            continue
        found += 1
    assert found == LEGAL_POSITIONS[size]


def random_game(game: Game, rng: random.Random, plies: int, pass_share: float) -> list[int]:
    """Return the moves of a game with few passes, so that stones are captured and points fought for."""
    positions, moves = np.zeros((plies + 1, game.state_words), np.uint64), list[int]()
    while len(moves) < plies:
        choices = legal(game, positions, len(moves) + 1)
        if game.rules.end_reason(positions, len(moves) + 1, len(choices), NO_ROOT):
            break
        stones = choices[:-1]
        moves.append(rng.choice(stones) if stones and rng.random() >= pass_share else choices[-1])
        game.rules.play(positions[len(moves) - 1], moves[-1], positions[len(moves)])
    return moves


@pytest.mark.parametrize("rules", VARIANTS, ids=lambda rules: rules.name)
def test_random_games_go_as_in_the_naive_twin(rules: GoRules) -> None:
    game, rng = game_of(rules), random.Random(rules.name)
    for _ in range(8 if rules.size < 9 else 1):
        moves = random_game(game, rng, game.max_plies, 0.02)
        twin = NaiveGo(rules.size, rules.komi, rules.superko, rules.suicide)
        assert_goes_as_in_the_twin(game, twin, moves, 3)


def test_a_game_on_19x19_goes_as_in_the_naive_twin() -> None:
    """Its boards fill six words. Stones are compared at every ply of a game, legal moves at some."""
    game, twin = get_game("go"), NaiveGo(19)
    moves = random_game(game, random.Random(19), 500, 0.0)
    positions = replay(game, moves)
    for n, move in enumerate(moves, start=1):
        assert bits(game, features(game, positions, n, 1), 1).tolist() == twin.planes(1)
        if n % 200 == 0:
            assert legal(game, positions, n) == twin.legal()
        twin.play(move)
    assert sum(len(board) for board in twin.boards[-1:]) < len(moves)


@settings(max_examples=scaled(60))
@given(st.sampled_from([2, 5, 9, 19]), st.data())
def test_area_scores_are_those_of_an_independent_flood_fill(size: int, data: st.DataObject) -> None:
    """Owners of points and their sum agree on any board, with or without stones that have no liberty."""
    rules = GoRules(size, komi=0)
    game, twin = game_of(rules), NaiveGo(size, komi=0)
    seen = data.draw(st.lists(st.sampled_from([None, None, 0, 1]), min_size=size**2, max_size=size**2))
    sides = zip(twin.points(), seen, strict=True)
    twin.boards[-1] = {point: side for point, side in sides if side is not None}
    state, words = np.zeros(game.state_words, np.uint64), (size * size + 63) // 64
    for number, side in enumerate(seen):
        if side is not None:
            state[side * words + number // 64] |= np.uint64(1 << number % 64)
    reached = [twin.reached(side) for side in (0, 1)]
    owners = [(point in reached[0]) - (point in reached[1]) for point in twin.points()]
    assert owners_of(rules, state).tolist() == owners
    assert game.score(state) == twin.score() == sum(owners)


@pytest.mark.parametrize(("name", "cap"), [("go_2x2", 64), ("go_3x3", 64), ("go_4x4", 32), ("go", 722)])
def test_the_cap_on_plies_counts_the_board_as_it_stands(name: str, cap: int) -> None:
    """A game that reaches the cap has a winner; the cap makes no draw."""
    game = get_game(name)
    positions = np.zeros((cap + 1, game.state_words), np.uint64)
    assert game.max_plies == cap
    assert game.rules.end_reason(positions, cap, 1, NO_ROOT) == 0
    assert game.reason_name(game.rules.end_reason(positions, cap + 1, 1, NO_ROOT)) == "fewer_points"
