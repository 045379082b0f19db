"""Ends, repetition, drops and declaration of shogi, one rule at a time."""

import re

import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.game_end import in_check
from azselfplay.games.shogi.notation import legal_list
from azselfplay.games.spec import NO_ROOT


def texts(sfen: str) -> set[str]:
    """Return the legal moves of a position."""
    state = GAME.notation.state_from_text(sfen)
    return {GAME.notation.action_to_text(state, action) for action in legal_list(state)}


def end(game: GameHistory, root: int = NO_ROOT) -> tuple[str, int]:
    """Return name and value (for the side to move) of the end, or ("ongoing", 0) if there is none; check that
    `maybe_wins` rules out no move that won."""
    count = len(game.legal_actions())
    reason = game.game.end_reasons[game.game.rules.end_reason(game.states, game.ply + 1, count, root)]
    if reason.value == -1 and game.ply:
        last = np.array(game.actions[-1:], np.uint16)
        assert game.game.rules.maybe_wins(game.states.copy(), game.ply, last, last)
    return reason.name, reason.value


def turned(sfen: str) -> str:
    """Return the same position with Black and White exchanged."""
    board, side, hands, number = sfen.split()
    rows = ["".join(reversed(re.findall(r"\+?.", row))) for row in reversed(board.split("/"))]
    return f"{'/'.join(rows).swapcase()} {'bw'[side == 'b']} {hands.swapcase()} {number}"


def turned_move(usi: str) -> str:
    squares = str.maketrans("123456789abcdefghi", "987654321ihgfedcba")
    return usi.translate(squares)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize(
    ("what", "sfen", "drop", "legal"),
    [
        ("it mates", "7lk/9/8S/9/9/9/9/7L1/8K b P 1", "P*1b", False),
        ("the king has a step", "7lk/9/9/7N1/9/9/9/9/8K b P 1", "P*1b", True),
        ("the king can take it", "7lk/9/9/9/9/9/9/7L1/8K b P 1", "P*1b", True),
        ("a gold can take it", "7lk/7g1/8S/9/9/9/9/9/8K b P 1", "P*1b", True),
        ("the gold is pinned", "7lk/7g1/6B1S/9/9/9/9/9/8K b P 1", "P*1b", False),
        ("it shades a step from the rook", "6lkl/R8/9/9/9/9/9/9/K8 b P 1", "P*2b", True),
        ("the step is attacked by another", "6lkl/R8/8S/9/9/9/9/9/K8 b P 1", "P*2b", False),
    ],
)
def test_a_dropped_pawn_may_check_but_not_mate(
    what: str, sfen: str, drop: str, legal: bool, is_turned: bool
) -> None:
    found = {turned_move(move) for move in texts(turned(sfen))} if is_turned else texts(sfen)
    assert (drop in found) is legal, what


def test_mate_by_a_pawn_that_moves_is_legal() -> None:
    assert end(replay(GAME, "7lk/9/8P/8L/9/9/9/7L1/8K b - 1", ["1c1b"])) == ("mate", -1)


def test_no_legal_move_loses_without_a_check_too() -> None:
    game = replay(GAME, "k8/9/8R/9/9/9/9/1R7/8K b - 1", ["1c1b"])
    assert (end(game), bool(in_check(game.state))) == (("mate", -1), False)


def test_the_fourth_occurrence_draws_and_in_a_search_the_second() -> None:
    moves = ["2h3h", "8b7b", "3h2h", "7b8b"] * 3
    assert end(replay(GAME, "", moves)) == ("repetition", 0)
    assert end(replay(GAME, "", moves[:11])) == ("ongoing", 0)
    assert end(replay(GAME, "", moves[:4])) == ("ongoing", 0)
    assert end(replay(GAME, "", moves[:4]), root=0) == ("repetition", 0)
    assert end(replay(GAME, "", moves[:4]), root=1) == ("ongoing", 0)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize(
    ("what", "sfen", "before", "cycle", "expected"),
    [
        ("he checks for ever", "7R1/k8/9/9/9/9/9/9/8K b - 1",
         "", "2a2b 9b9a 2b2a 9a9b", ("perpetual_check_given", -1)),
        ("he is checked for ever", "9/k6R1/9/9/9/9/9/9/8K w - 1",
         "", "9b9a 2b2a 9a9b 2a2b", ("perpetual_check_suffered", 1)),
        ("every other move checks", "7R1/k8/9/9/9/9/9/9/8K b - 1",
         "2a2b", "9b9a 2b2d 9a9b 2d2b", ("repetition", 0)),
        ("he did not before the first occurrence", "9/k8/9/9/7R1/9/9/9/8K b - 1",
         "2e2d 9b9c 2d2a 9c9b", "2a2b 9b9a 2b2a 9a9b", ("perpetual_check_given", -1)),
    ],
)  # fmt: skip
def test_who_gives_check_for_ever_loses(
    what: str, sfen: str, before: str, cycle: str, expected: tuple[str, int], is_turned: bool
) -> None:
    """This holds whichever side makes the move that leads to the fourth occurrence."""
    moves = [*before.split(), *cycle.split() * 3]
    game = GameHistory(GAME, turned(sfen) if is_turned else sfen)
    for move in moves:
        assert end(game) == ("ongoing", 0), what
        game.play_text(turned_move(move) if is_turned else move)
    assert end(game) == expected, what


DECLARES = "1+R+R+B+B4/1KGGSS3/1GGSS4/9/9/9/9/9/4k4 b - 1"


@pytest.mark.parametrize(
    ("what", "sfen", "wins"),
    [
        ("28 points of Black's", DECLARES, True),
        ("27 points of Black's", DECLARES.replace("1GGSS4", "1GGS5"), False),
        ("28 with a pawn in hand", DECLARES.replace("1GGSS4", "1GGS5").replace("-", "P"), True),
        ("27 points of White's", turned(DECLARES.replace("1GGSS4", "1GGS5")), True),
        ("26 points of White's", turned(DECLARES.replace("1GGSS4", "1GG6")), False),
        ("the king is in check", DECLARES.replace("1K", "+pK"), False),
        ("the king stands outside", "1+R+R+B+B4/2GGSS3/1GGSS4/1K7/9/9/9/9/4k4 b 9P 1", False),
        ("nine pieces inside", DECLARES.replace("1GGSS4", "1G7").replace("-", "18P"), False),
        ("ten pieces inside", DECLARES.replace("1GGSS4", "1GS6").replace("-", "18P"), True),
    ],
)
def test_who_may_declare_has_won_where_the_game_has_the_declaration(what: str, sfen: str, wins: bool) -> None:
    declared = ("declaration", 1) if wins else ("ongoing", 0)
    assert end(GameHistory(get_game("shogi_declaration"), sfen)) == declared, what
    assert end(GameHistory(GAME, sfen)) == ("ongoing", 0)
