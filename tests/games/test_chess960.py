"""Chess960 where it differs from chess: start positions, castling, texts, and perft of the public suite."""

import chess
import numpy as np
import pytest
from perft import perft

from azselfplay.games import get_game
from azselfplay.games.knowledge import knowledge_of
from azselfplay.play.openings import random_openings
from azselfplay.search.settings import resolve
from protocol.settings import SelfPlaySettings, StartSettings

GAME = get_game("chess960")
NOTATION, GENERATOR = GAME.notation, GAME.generator
READ, WRITE = NOTATION.state_from_text, NOTATION.state_to_text

PERFT = [
    ("bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9", (21, 528, 12189, 326672)),
    ("2nnrbkr/p1qppppp/8/1ppb4/6PP/3PP3/PPP2P2/BQNNRBKR w HEhe - 1 9", (21, 807, 18002, 667366)),
    ("b1q1rrkb/pppppppp/3nn3/8/P7/1PPP4/4PPPP/BQNNRKRB w GE - 1 9", (20, 479, 10471, 273318)),
    ("qbbnnrkr/2pp2pp/p7/1p2pp2/8/P3PP2/1PPP1KPP/QBBNNR1R w hf - 0 9", (22, 593, 13440, 382958)),
    ("bnqnrbkr/1pp2pp1/p7/3pP2p/4P1P1/8/PPPP3P/BNQNRBKR w HEhe d6 0 9", (31, 984, 28677, 962591)),
    ("n1bb1rkr/qpnppppp/2p5/p7/P1P5/5P2/1P1PPRPP/NQBBN1KR w Hhf - 1 9", (27, 697, 18724, 505089)),
    ("nnrkrbbq/pppp2pp/8/4pp2/4P3/P7/1PPPBPPP/NNKRR1BQ w c - 0 9", (25, 792, 19883, 636041)),
]
"""Positions of the public suite of 960, and their counts, which python-chess confirmed to the third ply. All
960 were exact to the fifth ply when this was written."""


@pytest.mark.parametrize(("fen", "counts"), PERFT)
def test_perft_of_the_public_suite_is_exact(fen: str, counts: tuple[int, ...]) -> None:
    state = READ(fen)
    assert tuple(perft(GAME, state, depth) for depth in range(1, len(counts) + 1)) == counts


# ---- Start positions -----------------------------------------------------------------------------


def test_start_positions_are_numbered_as_everywhere() -> None:
    """Position 518 is that of chess, and the usual one."""
    for number in range(960):
        text = GENERATOR.draw(str(number), np.random.default_rng(0))
        assert text == chess.Board.from_chess960_pos(number).shredder_fen()
        assert GENERATOR.matches(str(number), text)
        assert GENERATOR.matches("all", text)
        assert GENERATOR.matches("518", text) == (number == 518)
    assert WRITE(READ("")) == GENERATOR.draw("518", np.random.default_rng(0))
    assert not GENERATOR.matches("all", chess.STARTING_FEN)  # which `draw` writes in another way


@pytest.mark.parametrize("name", ["", "960", "-1", "KQK", "²"])
def test_what_is_no_number_of_a_start_position_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="0 to 959"):
        GENERATOR.check(name)


def test_games_begin_anywhere_unless_the_settings_say_where() -> None:
    """This holds for games of self-play and for random openings of matches."""
    start = resolve(SelfPlaySettings(), GAME).start
    assert (start.generator, start.share) == ("all", 1.0)
    only = StartSettings(position=PERFT[0][0])
    assert resolve(SelfPlaySettings(start=only), GAME).start == only
    assert resolve(SelfPlaySettings(), get_game("chess")).start == StartSettings()
    openings = random_openings(GAME, 20, 2, seed=1)
    assert len({opening.start for opening in openings}) > 15
    assert openings[:5] == random_openings(GAME, 5, 2, seed=1)
    openings = random_openings(GAME, 5, 2, 1, resolve(SelfPlaySettings(start=only), GAME))
    assert {opening.start for opening in openings} == {PERFT[0][0]}


# ---- Texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("castling", "read"),
    [("KQkq", "HBgb"), ("HBgb", "HBgb"), ("GCgb", "GCgb"), ("BGb", "GBb"), ("Kb", "Hb"), ("-", "-")],
)
def test_castling_rights_are_files_or_the_outermost_rooks(castling: str, read: str) -> None:
    """They are read as python-chess reads them."""
    fen = f"1rk3r1/pppppppp/8/8/8/8/PPPPPP2/1RRK2RR w {castling} - 0 1"
    assert WRITE(READ(fen)).split()[2] == chess.Board(fen, chess960=True).castling_shredder_fen() == read


@pytest.mark.parametrize(
    ("fen", "moves", "after"),
    [
        ("4k3/8/8/8/8/8/8/4K2R w H - 0 1", {"e1h1": "e1g1"}, "4k3/8/8/8/8/8/8/5RK1 b - - 1 1"),
        ("r3k3/8/8/8/8/8/8/4K3 b a - 0 1", {"e8a8": "e8c8"}, "2kr4/8/8/8/8/8/8/4K3 w - - 1 2"),
        ("4k3/8/8/8/8/8/4PPP1/4QKRB w G - 0 1", {"f1g1": "f1g1"}, "4k3/8/8/8/8/8/4PPP1/4QRKB b - - 1 1"),
        ("4k3/8/8/8/8/8/8/2RK4 w C - 0 1", {"d1c1": "d1c1"}, "4k3/8/8/8/8/8/8/2KR4 b - - 1 1"),
    ],
)
def test_castling_is_the_kings_move_onto_its_rook(fen: str, moves: dict[str, str], after: str) -> None:
    """This holds even where the king does not move. Castling may also be written as in chess."""
    state, [(text, in_chess)] = READ(fen), moves.items()
    action = NOTATION.action_from_text(state, text)
    assert NOTATION.action_from_text(state, in_chess) == action
    assert NOTATION.action_to_chess(state, action) == in_chess
    assert knowledge_of(GAME).words.move(state, action, None) in ("O-O", "O-O-O", "O-O+", "O-O-O+")
    assert WRITE(GAME.after(state, action)) == after
