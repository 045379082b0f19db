"""Moves are read from text by their squares: exactly the legal ones, each as itself."""

import pytest

from azselfplay.games.chess.notation import NOTATION, legal_list

POSITIONS = (
    "",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1",
    "rnbqkb1r/ppp1pppp/5n2/3pP3/8/8/PPPP1PPP/RNBQKBNR w KQkq d6 0 3",
    "1n1n4/P1P3k1/8/8/8/8/p1p3K1/1N1N4 w - - 0 1",
    "1n1n4/P1P3k1/8/8/8/8/p1p3K1/1N1N4 b - - 0 1",
)
SQUARES = [file + rank for file in "abcdefgh" for rank in "12345678"]


@pytest.mark.parametrize("fen", POSITIONS)
def test_of_all_texts_of_two_squares_the_legal_ones_are_read(fen: str) -> None:
    """Every promotion letter is tried, right or wrong."""
    state = NOTATION.state_from_text(fen)
    legal = {NOTATION.action_to_text(state, action): action for action in legal_list(state)}
    promotions = [text[:4] for text in legal if len(text) == 5]
    tried = [a + b for a in SQUARES for b in SQUARES if a + b in legal] + promotions
    for text in [move + letter for move in tried for letter in ("", "q", "r", "b", "n", "k", "Q", " ")]:
        if text in legal:
            assert NOTATION.action_from_text(state, text) == legal[text]
        else:
            with pytest.raises(ValueError, match="not a legal move"):
                NOTATION.action_from_text(state, text)
    assert len({NOTATION.action_from_text(state, text) for text in legal}) == len(legal)


@pytest.mark.parametrize("text", ["", "e2", "e2e5", "e2e4e4", "h1a8", "i9i9", "a1a1", "0000", "E2E4"])
def test_what_is_no_move_is_refused_with_the_moves_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="legal: "):
        NOTATION.action_from_text(NOTATION.state_from_text(""), text)
