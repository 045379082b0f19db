"""Ends, repetition and special moves of chess, one rule at a time."""

import pytest

from azselfplay.games.chess import GAME
from azselfplay.games.game_history import replay
from azselfplay.games.spec import NO_ROOT


def reason_after(fen: str, *moves: str, root: int = NO_ROOT) -> str:
    """Return the reason why the game ends when `moves` (UCI) are played from `fen`."""
    game = replay(GAME, fen, moves)
    count = len(game.legal_actions())
    return GAME.reason_name(GAME.rules.end_reason(game.states, game.ply + 1, count, root))


@pytest.mark.parametrize(
    ("fen", "move", "reason"),
    [
        ("7k/8/5KQ1/8/8/8/8/8 w - - 0 1", "f6f7", "stalemate"),
        ("6k1/5ppp/8/8/8/8/8/R6K w - - 99 80", "a1a8", "checkmate"),
        ("6k1/5pp1/8/8/8/8/8/R6K w - - 99 80", "a1b1", "fifty_moves"),
        ("6k1/5pp1/8/8/8/8/8/R6K w - - 98 80", "a1b1", "ongoing"),
        ("6k1/8/8/8/8/8/r7/1K6 w - - 0 1", "b1a2", "insufficient_material"),
    ],
)
def test_a_move_ends_the_game_for_the_right_reason(fen: str, move: str, reason: str) -> None:
    assert reason_after(fen, move) == reason


@pytest.mark.parametrize(
    ("fen", "dead"),
    [
        ("8/8/4k3/8/8/3K4/8/8 w - - 0 1", True),
        ("8/8/4k3/8/8/3KN3/8/8 w - - 0 1", True),
        ("8/8/4k3/8/8/2BKB3/8/8 w - - 0 1", True),
        ("8/3b4/4k3/8/8/2BK4/8/8 w - - 0 1", False),
        ("8/8/4k3/8/8/2NKN3/8/8 w - - 0 1", False),
        ("8/8/3nk3/8/8/3KN3/8/8 w - - 0 1", False),
        ("8/8/3bk3/8/8/3KN3/8/8 w - - 0 1", False),
        ("8/8/3pk3/8/8/3K4/8/8 w - - 0 1", False),
        ("8/8/3rk3/8/8/3K4/8/8 w - - 0 1", False),
    ],
)
def test_too_little_material_is_a_draw_only_when_no_mate_can_be(fen: str, dead: bool) -> None:
    assert (reason_after(fen) == "insufficient_material") is dead


KNIGHTS_OUT_AND_BACK = ("g1f3", "g8f6", "f3g1", "f6g8")


@pytest.mark.parametrize(("root", "expected"), [(0, "threefold_repetition"), (1, "ongoing"), (4, "ongoing")])
def test_a_first_repetition_is_a_draw_only_of_a_searched_line_that_holds_both(
    root: int, expected: str
) -> None:
    """The root itself belongs to the line; a position of the game before it does not."""
    assert reason_after("", *KNIGHTS_OUT_AND_BACK, root=root) == expected


def test_position_with_other_castling_rights_is_not_a_repetition() -> None:
    fen = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1"
    assert reason_after(fen, "a1b1", "a8b8", "b1a1", "b8a8", root=0) == "ongoing"


def test_en_passant_that_is_not_legal_does_not_hinder_a_repetition() -> None:
    pinned = "4k3/8/8/8/4p3/8/3P4/K3R3 w - - 0 1"
    assert reason_after(pinned, "d2d4", "e8d7", "e1e2", "d7e8", "e2e1", root=0) == "threefold_repetition"


def test_legal_en_passant_makes_the_position_another_one() -> None:
    fen = "4k3/8/8/8/4p3/8/3P4/4K3 w - - 0 1"
    assert reason_after(fen, "d2d4", "e8d8", "e1d1", "d8e8", "d1e1", root=0) == "ongoing"
