"""Material, openings and game files of shogi."""

import cshogi
import numpy as np
import pytest
from perft import perft
from shogi_agreement import STARTS
from test_game_files import played

from azselfplay.games.game_history import replay
from azselfplay.games.knowledge import WrittenMove, knowledge_of
from azselfplay.games.playouts import legal, playouts
from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.game_files import csa
from azselfplay.games.shogi.knowledge import is_noisy, material, order_score
from azselfplay.games.shogi.notation import state_from_sfen

VALUES = dict(zip("PLNSGBRK", (100, 300, 350, 500, 550, 800, 950, 0), strict=True)) | {
    "+P": 550, "+L": 550, "+N": 550, "+S": 550, "+B": 1100, "+R": 1300
}  # fmt: skip


def plain_material(sfen: str) -> int:
    """Return the material for the side to move, counted letter by letter."""
    board = cshogi.Board(sfen)
    values = [VALUES.get(cshogi.PIECE_SYMBOLS[piece % 16].upper(), 0) for piece in board.pieces]
    total = sum(-value if piece >= 16 else value for value, piece in zip(values, board.pieces, strict=True))
    for sign, hand in zip((1, -1), board.pieces_in_hand, strict=True):
        total += sign * sum(VALUES[letter] * count for letter, count in zip("PLNSGBR", hand, strict=True))
    return -total if board.turn == cshogi.WHITE else total


def test_material_is_counted_as_it_is_letter_by_letter() -> None:
    for playout in playouts("shogi"):
        for n in range(1, len(playout.positions) + 1, 3):
            expected = plain_material(GAME.notation.state_to_text(playout.positions[n - 1]))
            assert material(playout.positions[n - 1]) == expected


def test_noisy_are_captures_and_promotions_and_the_best_capture_is_searched_first() -> None:
    state = state_from_sfen("4k4/9/2P3p2/9/1r2G1s2/9/9/4K2L1/6R2 b P 1")
    text = GAME.notation.action_to_text
    actions = legal(GAME, state[None], 1)
    scores = {text(state, at): (is_noisy(state, at), order_score(state, at)) for at in actions}
    noisy = {move for move, (is_one, _) in scores.items() if is_one}
    early = {move for move, (_, score) in scores.items() if score > 0}
    assert noisy == early == {"2h2a+", "2h2b+", "2h2c+", "3i3e", "7c7b+"}
    assert max(scores, key=lambda move: scores[move][1]) == "3i3e"


@pytest.mark.parametrize("name", knowledge_of(GAME).book)
def test_openings_are_legal_and_different(name: str) -> None:
    book = knowledge_of(GAME).book
    state = replay(GAME, "", book[name].split()).state
    others = [replay(GAME, "", moves.split()).state for other, moves in book.items() if other != name]
    assert not any(np.array_equal(state[:10], other[:10]) for other in others)


@pytest.mark.parametrize("start", ["", *STARTS])
def test_cshogi_reads_the_games_that_are_written(start: str) -> None:
    sfen, moves = start or cshogi.STARTING_SFEN, played("shogi", 5, 60, start).moves_text()
    tags = {"White": "first", "Black": "second", "Termination": "resignation", "Event": "an event"}
    text = csa(tags, start, [WrittenMove(move, "well\nplayed", [(("9i9h",), "20 %")]) for move in moves], "")
    (read,) = cshogi.Parser.parse_str(text)
    assert [cshogi.move_to_usi(move) for move in read.moves] == moves
    assert (read.names, read.endgame) == (["first", "second"], "%TORYO")
    assert cshogi.Board(read.sfen).sfen().split()[:3] == sfen.split()[:3]


def test_a_move_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a legal move"):
        csa({}, "", [WrittenMove("7g7e")], "")


def test_probes_are_as_they_are_called() -> None:
    assert [perft(GAME, state_from_sfen(sfen), 1) > 0 for _, sfen in GAME.probes] == [True] * 4
    values = [int(material(state_from_sfen(sfen))) for _, sfen in GAME.probes]
    assert values[0] == 0
    assert values[1] == -values[2] == values[3] > 0
