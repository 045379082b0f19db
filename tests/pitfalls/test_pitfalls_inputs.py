"""Mistakes in the network's inputs: docs/pitfalls.md."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from every_game import EVERY_GAME
from test_chess_perft import KNOWN

from azselfplay.games import get_game
from azselfplay.games.conformance import bits, features, playouts, scalars
from azselfplay.games.game_history import GameHistory, replay

CHESS = get_game("chess")
COLOUR, PLIES, CLOCK = 0, 1, 6
"""The scalar planes of chess."""


def words_of(game_history: GameHistory, history: int) -> np.ndarray:
    return features(game_history.game, game_history.states, game_history.ply + 1, history)


def test_the_same_board_with_another_past_is_another_input() -> None:
    """After Nf3 Nf6 Ng1 Ng8 the board is that of the start, but is repeated. Two ways to the same board
    differ in their past positions. The fifty-move clock counts, all else being equal."""
    again, start = replay(CHESS, "", ["g1f3", "g8f6", "f3g1", "f6g8"]), replay(CHESS)
    boards = [bits(CHESS, words_of(line, 1), 1) for line in (again, start)]
    assert np.array_equal(boards[0][:12], boards[1][:12])
    assert not np.array_equal(boards[0], boards[1])
    ways = [replay(CHESS, "", moves.split()) for moves in ("e2e3 e7e6 d2d3 d7d6", "d2d3 d7d6 e2e3 e7e6")]
    assert np.array_equal(*(words_of(line, 1) for line in ways))
    assert not np.array_equal(*(words_of(line, 8) for line in ways))
    clocks = [replay(CHESS, f"7k/8/8/8/8/8/R7/K7 w - - {clock} 90") for clock in (10, 60)]
    assert not np.array_equal(*(words_of(line, 1) for line in clocks))


@pytest.mark.parametrize("fen", [fen for fen, _ in KNOWN])
def test_a_position_and_its_mirror_are_the_same_to_the_network_but_for_the_colour(fen: str) -> None:
    """So v(White to move) equals v(Black to move on the mirrored board), and a move has the same index."""
    lines = [replay(CHESS, text) for text in (fen, chess.Board(fen).mirror().fen())]
    one, other = (words_of(line, 8) for line in lines)
    assert np.array_equal(bits(CHESS, one, 8), bits(CHESS, other, 8))
    numbers = [scalars(CHESS, packed_features, 8) for packed_features in (one, other)]
    assert {float(number[COLOUR]) for number in numbers} == {0.0, 1.0}
    # The full-move number is the same, so Black's mirror is one half-move later.
    assert np.array_equal(numbers[0][PLIES + 1 :], numbers[1][PLIES + 1 :])
    assert set(lines[0].legal_actions().tolist()) == set(lines[1].legal_actions().tolist())


@pytest.mark.parametrize("name", EVERY_GAME)
def test_all_planes_stay_in_range_to_the_end_of_every_game(name: str) -> None:
    """This holds at every ply of random games, the longest included; chess's counters are those of the
    rules."""
    game = get_game(name)
    longest = max(playouts(name), key=lambda playout: len(playout.actions))
    for n in range(1, len(longest.positions) + 1):
        numbers = scalars(game, features(game, longest.positions, n, 1), 1)
        assert ((numbers >= 0) & (numbers <= 1)).all()
        if name == "chess":
            assert numbers[PLIES] == np.float32(n - 1) / np.float32(512)
            board = chess.Board(game.notation.state_to_text(longest.positions[n - 1]))
            assert numbers[CLOCK] == np.float32(min(board.halfmove_clock, 100)) / np.float32(100)
