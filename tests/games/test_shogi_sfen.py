"""What the reader of SFEN accepts and refuses."""

import cshogi
import pytest

from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.notation import START_SFEN, state_from_sfen, state_to_sfen

KINGS = "4k4/9/9/9/9/9/9/9/4K4"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "4 fields"),
        (f"{KINGS} b - 1 1", "4 fields"),
        ("4k4/9/9/9/9/9/9/4K4 b - 1", "9 ranks"),
        (KINGS.replace("4k4", "4k5") + " b - 1", "10 squares instead of 9"),
        (KINGS.replace("4k4", "4k3") + " b - 1", "8 squares instead of 9"),
        (KINGS.replace("4k4", "4k3x") + " b - 1", "'x' is neither"),
        (KINGS.replace("4k4", "4+k4") + " b - 1", "'\\+k' is neither"),
        (KINGS.replace("4k4", "4k3+") + " b - 1", "'\\+' is neither"),
        (KINGS.replace("4k4", "4k2+G1") + " b - 1", "'\\+G' is neither"),
        (f"{KINGS} x - 1", "'b' or 'w'"),
        (f"{KINGS} b K 1", "the hands are"),
        (f"{KINGS} b 0P 1", "the hands are"),
        (f"{KINGS} b 19P 1", "the hands are"),
        (f"{KINGS} b 3R 1", "more than 2"),
        (f"{KINGS} b PP 1", "twice"),
        (f"{KINGS} b - -1", "number from 0 to 9999"),
        (f"{KINGS} b - 1.5", "number from 0 to 9999"),
        (f"{KINGS} b - ²", "number from 0 to 9999"),
        (f"{KINGS} b - {'9' * 40}", "number from 0 to 9999"),
        (KINGS.replace("k", "1") + " b - 1", "White has 0 kings"),
        (KINGS.replace("4K4", "3KK4") + " b - 1", "Black has 2 kings"),
        ("4k4/9/9/PPPPPPPPP/9/9/ppppppppp/9/4K4 b P 1", "19 pawns"),
        ("R3k4/9/9/9/9/9/9/+r8/4K4 w r 1", "3 rooks"),
        ("P3k4/9/9/9/9/9/9/9/4K4 b - 1", "P on 9a has no move"),
        ("4k4/N8/9/9/9/9/9/9/4K4 b - 1", "N on 9b has no move"),
        ("4k4/9/9/9/9/9/9/9/4K3l w - 1", "l on 1i has no move"),
        ("4k4/9/P8/9/P8/9/9/9/4K4 b - 1", "two unpromoted pawns on file 9"),
        ("9/9/9/9/4k4/4K4/9/9/9 b - 1", "side by side on 5f and 5e"),
        ("4k4/9/9/9/4R4/9/9/9/4K4 b - 1", "White's king is in check"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        GAME.notation.state_from_text(text)


@pytest.mark.parametrize("text", ["", "startpos", START_SFEN, START_SFEN[:-2]])
def test_the_usual_start_has_four_names(text: str) -> None:
    assert state_to_sfen(state_from_sfen(text)) == START_SFEN == cshogi.STARTING_SFEN


@pytest.mark.parametrize(
    "text",
    [
        f"{KINGS} w - 300",
        f"{KINGS} b 2R2B4G4S4N4L18P 7",
        "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1",
    ],
)
def test_sfen_is_written_as_cshogi_writes_it(text: str) -> None:
    assert state_to_sfen(state_from_sfen(text)) == text == cshogi.Board(text).sfen()


def test_a_move_number_of_nought_means_the_first_move() -> None:
    text = f"{KINGS} w - 0"
    assert state_to_sfen(state_from_sfen(text)) == f"{KINGS} w - 1"
