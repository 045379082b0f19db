"""FEN in and out: what is read, and what is refused and why."""

import chess
import pytest
from chess import STARTING_FEN as START_FEN
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games.chess import GAME

READ, WRITE = GAME.notation.state_from_text, GAME.notation.state_to_text


@pytest.mark.parametrize("missing", [START_FEN, " 0 1", " 1"])
def test_missing_counters_are_nought_and_one_and_empty_text_is_the_usual_start(missing: str) -> None:
    assert WRITE(READ(START_FEN.removesuffix(missing))) == START_FEN


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2", "d6"),
        ("4k3/8/8/3p4/4P3/8/8/4K3 w - d6 0 2", "-"),
        ("8/8/8/K2pP2r/8/8/8/4k3 w - d6 0 2", "-"),
    ],
)
def test_en_passant_square_is_kept_only_when_a_legal_move_takes_there(text: str, kept: str) -> None:
    assert WRITE(READ(text)).split()[3] == kept


KINGS = "4k3/8/8/8/8/8/8/4K3"
REFUSED = [
    ("hello", "6 fields"),
    (f"{START_FEN} 7", "6 fields"),
    ("4k3/8/8/8/8/8/4K3 w - - 0 1", "8 ranks"),
    ("4k4/8/8/8/8/8/8/4K3 w - - 0 1", "rank 8 has 9 squares"),
    ("4k2/8/8/8/8/8/8/4K3 w - - 0 1", "rank 8 has 7 squares"),
    ("4k3/8/8/8/8/8/8/4K2x w - - 0 1", "'x' is neither"),
    ("4k3/8/8/8/8/8/8/4K2² w - - 0 1", "is neither"),
    ("4k3/8/8/8/8/8/8/8 w - - 0 1", "White has 0 kings"),
    ("4k2k/8/8/8/8/8/8/4K3 w - - 0 1", "Black has 2 kings"),
    ("4k2P/8/8/8/8/8/8/4K3 w - - 0 1", "cannot stand on h8"),
    ("4k3/8/8/8/8/8/8/p3K3 w - - 0 1", "cannot stand on a1"),
    ("4k3/8/8/8/QQQQQQQQ/QQ6/8/4K3 b - - 0 1", "more pieces than at the start"),
    (f"{KINGS} x - - 0 1", "side to move"),
    (f"{KINGS} w KK - 0 1", "'K' needs White's king"),
    (f"{KINGS} w x - 0 1", "castling rights are"),
    (f"{KINGS} w K - 0 1", "needs White's king"),
    ("r3k2r/8/8/8/8/8/8/R2K3R w Q - 0 1", "needs White's king"),
    ("4k3/8/8/8/8/8/8/4K2r w K - 0 1", "needs White's king"),
    (f"{KINGS} w - e3 0 1", "on rank 6 when White moves"),
    (f"{KINGS} w - z9 0 1", "on rank 6 when White moves"),
    (f"{KINGS} w - d6 0 1", "no Black pawn"),
    ("4k3/8/3n4/3pP3/8/8/8/4K3 w - d6 0 1", "no Black pawn"),
    ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 3 1", "has just moved"),
    (f"{KINGS} w - - -1 1", "half-move clock"),
    (f"{KINGS} w - - 10000 1", "half-move clock"),
    (f"{KINGS} w - - 000000000100000 1", "half-move clock"),
    (f"{KINGS} w - - 0 10000", "move number"),
    (f"{KINGS} w - - 0 -1", "move number"),
    (f"{KINGS} w - - 0 x", "move number"),
    ("4k3/8/8/8/8/8/8/K3R3 w - - 0 1", "Black's king is in check"),
    ("4k3/8/8/8/8/8/5p2/4K3 b - - 0 1", "White's king is in check"),
    ("8/8/8/8/8/8/4k3/4K3 w - - 0 1", "side by side"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_impossible_position_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        READ(text)


@pytest.mark.parametrize("counters", ["0 0", "100 1", "101 60", "150 90", "9999 9999"])
def test_counters_are_read_as_python_chess_reads_them(counters: str) -> None:
    text = f"4k3/8/8/8/8/8/8/R3K3 b - - {counters}"
    assert WRITE(READ(text)) == chess.Board(text).fen()


@given(st.text(alphabet="rnbqkpRNBQKP12345678/ wb-KQkqe36", max_size=60))
def test_any_text_is_read_and_written_back_or_refused_with_a_value_error(text: str) -> None:
    try:
        state = READ(text)
    except ValueError:
        return
    assert READ(WRITE(state)).tolist() == state.tolist()


@pytest.mark.parametrize(
    ("fen", "text"),
    [
        *(("", text) for text in ("", "e2", "e2e5", "e2e4e4", "h1a8", "i9i9", "a1a1", "0000", "E2E4")),
        *(("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", text) for text in ("a7a8", "a7a8k", "a7a8Q", "a7a8 ")),
    ],
)
def test_what_is_no_move_is_refused_with_the_moves_there_are(fen: str, text: str) -> None:
    with pytest.raises(ValueError, match="legal: "):
        GAME.notation.action_from_text(READ(fen), text)
