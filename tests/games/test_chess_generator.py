"""Random endgames are legal, quiet, and of the material asked for; either colour may have either side's
men."""

import chess
import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.games.playouts import ended, legal

GAME = get_game("chess")
GENERATOR = GAME.generator
NAMES = ("KQK", "KRK", "KPK", "KBNK", "KRPKR", "KPPPKPPP")


def drawn(name: str, count: int = 60) -> list[str]:
    rng = np.random.default_rng(7)
    return [GENERATOR.draw(name, rng) for _ in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_drawn_positions_are_legal_quiet_and_unfinished(name: str) -> None:
    """python-chess agrees; nobody is in check; counters begin at their start; by our rules the game goes
    on."""
    for text in drawn(name):
        board = chess.Board(text)
        assert board.is_valid()
        assert not board.is_check()
        assert not board.is_game_over(claim_draw=False)
        assert text.split(" ")[2:] == ["-", "-", "0", "1"]
        positions = GAME.notation.state_from_text(text)[np.newaxis]
        assert len(legal(GAME, positions, 1)) == board.legal_moves.count()
        assert ended(GAME, positions, 1) == 0


def test_either_colour_is_the_stronger_and_either_moves() -> None:
    """All four combinations occur, men stand all over the board, and no two positions are alike."""
    texts = drawn("KQK", 200)
    kinds = [("Q" in text.split(" ")[0], text.split(" ")[1]) for text in texts]
    assert all(kinds.count((white, side)) > 25 for white in (True, False) for side in "wb")
    assert len(set(texts)) > 195
    squares = {chess.Board(text).king(chess.WHITE) for text in texts}
    assert len(squares) > 50


@pytest.mark.parametrize("name", NAMES)
def test_a_generator_knows_its_own_positions_and_no_others(name: str) -> None:
    """Positions of other material, other counters or other spelling, and impossible ones, are not its own."""
    for text in drawn(name, 20):
        assert GENERATOR.matches(name, text)
        assert not GENERATOR.matches(name + "N", text)
        assert not GENERATOR.matches(name, text.replace(" 0 1", " 3 1"))
        assert not GENERATOR.matches(name, text.replace(" 0 1", " 0 2"))
        assert not GENERATOR.matches(name, text + " ")
    assert not GENERATOR.matches(name, "")
    assert not GENERATOR.matches(name, "nonsense")
    assert not GENERATOR.matches("KQK", "8/8/8/4k3/8/8/4Q3/K7 b - - 0 1"), "in check"


@pytest.mark.parametrize(
    "name", ["", "K", "KQ", "QKK", "kqk", "KQKK", "KXK", "KK", "KBK", "KNK", "K" + "P" * 9 + "K"]
)
def test_what_is_no_material_or_never_a_game_is_refused(name: str) -> None:
    """The message has the name and shows what a name looks like."""
    with pytest.raises(ValueError, match=name or "no material"):
        GENERATOR.check(name)
