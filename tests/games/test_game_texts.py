"""Positions and moves as people paste and say them."""

import pytest

from azselfplay.games import get_game
from azselfplay.games.game_history import replay
from azselfplay.games.game_texts import display_moves, in_notation, read_position, writers_of
from azselfplay.games.knowledge import WrittenMove

KIF_POSITION = "lnsgkgsnl/1r5b1/ppppppppp/9/9/2P6/PP1PPPPPP/1B5R1/LNSGKGSNL w - 2"


@pytest.mark.parametrize(
    ("name", "moves", "people"),
    [
        ("chess", "e2e4 e7e5 g1f3 b8c6 f1b5 g8f6 e1g1", "e4 e5 Nf3 Nc6 Bb5 Nf6 O-O"),
        ("shogi", "7g7f 3c3d 8h2b+ 3a2b B*4e", "▲７六歩(77) △３四歩(33) ▲２二角成(88) △同　銀(31) ▲４五角打"),
        ("go_5x5", "C3 pass", "C3 pass"),
    ],
)
def test_moves_are_said_as_people_write_them(name: str, moves: str, people: str) -> None:
    game, wanted = get_game(name), people.split(" ")
    played = replay(game, "", moves.split())
    assert display_moves(game, played.states, played.actions) == wanted
    assert read_position(game, people).moves_text() == moves.split()
    before = played.actions[2:3]  # later moves alone: the texts of earlier ones do not matter
    assert display_moves(game, played.states[3:], played.actions[3:], *before) == wanted[3:]


TO_PROMOTE = "a2a4 b7b5 a4b5 a7a6 b5a6 h7h6 a6a7 h6h5"


@pytest.mark.parametrize(
    ("name", "before", "text", "move"),
    [
        ("chess", "e2e4 e7e5 g1f3 b8c6 f1b5 g8f6", "0-0", "e1g1"),
        ("chess", "e2e4 f7f5 d1h5", "g6", "g7g6"),
        ("chess", "e2e4 d7d5", "exd5", "e4d5"),
        ("chess", "e2e4 f7f5", "Qh5", "d1h5"),
        ("chess", "", "Nd5", "Nd5"),
        ("chess", "", "--", "--"),
        ("chess", "", "Ng1f3", "g1f3"),
        ("chess", "", "Ngf3", "g1f3"),
        ("chess", "", "N1f3!", "g1f3"),
        ("chess", TO_PROMOTE, "axb8Q", "a7b8q"),
        ("chess", TO_PROMOTE, "a7b8Q", "a7b8q"),
        ("chess", TO_PROMOTE, "a7b8=n", "a7b8n"),
        ("chess", TO_PROMOTE, "axb8", "axb8"),
        ("chess960", "e2e4 e7e5 g1f3 b8c6 f1b5 g8f6", "o-o", "e1h1"),
        ("chess960", "", "Ngf3", "g1f3"),
        ("shogi", "", "▲７六歩(77)", "7g7f"),
    ],
)
def test_a_move_as_people_write_it_is_found_among_the_legal_ones(
    name: str, before: str, text: str, move: str
) -> None:
    assert in_notation(replay(get_game(name), "", before.split()), text) == move


REPEATED = "g1f3 g8f6 f3g1 f6g8 " * 2

SHREDDER = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w HAha - 0 1"

BEFORE = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"
FEN = "rnbqkbnr/pppp1ppp/8/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R b KQkq - 1 2"


@pytest.mark.parametrize(
    ("name", "text", "position"),
    [
        ("chess", FEN, FEN),
        ("chess", "e2e4 e7e5 g1f3", FEN),
        ("chess", "e4 e5 Nf3!?", FEN),
        ("chess", "e4 e5 f4 Qh4+ g3", "rnb1kbnr/pppp1ppp/8/4p3/4PP1q/6P1/PPPP3P/RNBQKBNR b KQkq - 0 3"),
        ("chess", "1. e4 e5 2. Nf3 (2. f4) *", FEN),
        (
            "chess",
            '[Event "?"]\n[FEN "4k3/8/8/8/8/8/8/R3K3 w Q - 0 1"]\n\n1. O-O-O',
            "4k3/8/8/8/8/8/8/2KR4 b - - 1 1",
        ),
        ("chess", f"{REPEATED} e2e4 e7e5 g1f3", FEN.replace("- 1 2", "- 1 6")),
        ("go_5x5", "(;SZ[5];B[cc];W[])", "...../...../..x../...../..... x 1"),
        ("shogi", "# ---- Kifu for Windows ----\n手合割：平手\n手数----指手--\n 1 ７六歩(77)", KIF_POSITION),
        ("shogi", KIF_POSITION, KIF_POSITION),
        ("shogi", "▲７六歩(77)", KIF_POSITION),
        ("shogi", "position startpos moves 7g7f", KIF_POSITION),
        ("shogi", f"sfen {KIF_POSITION}", KIF_POSITION),
        ("chess", f"position fen {BEFORE} moves Nf3", FEN),
        ("chess", "startpos moves e2e4 e7e5 g1f3", FEN),
        ("chess960", "startpos", SHREDDER),
        ("chess", f'{FEN[:-4]} c0 "White moves and wins";', FEN.replace("1 2", "0 1")),
        ("shogi", "'by hand\nPI\n+\n+7776FU", KIF_POSITION),
        ("connect_four", "4 4", "......./......./......./......./...o.../...x..."),
    ],
)
def test_what_people_paste_is_a_position(name: str, text: str, position: str) -> None:
    game = get_game(name)
    assert game.notation.state_to_text(read_position(game, text).state) == position


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("chess", "1. e4 e4", "illegal san"),
        ("chess", "startpos moves e2e5", "^move 1 .*not a legal move"),
        ("chess", "e2e5", "not as a position.*and not as moves from the start"),
        ("connect_four", "4 9", "not as a position.*move 2 .'9'."),
        ("chess", "1. f3 e5 2. g4 Qh4# 3. a3", "illegal san"),
        ("connect_four", "1 2 1 2 1 2 1 2", r"move 8 .'2'.: the game is over"),
        ("go_5x5", "(;SZ[9];B[cc])", "board of 9, not of 5"),
        ("shogi", "手合割：平手\n手数----指手--\n 1 どこか", "どこか"),
    ],
)
def test_what_cannot_be_read_is_explained(name: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_position(get_game(name), text)


@pytest.mark.parametrize(
    ("name", "form", "move", "written"),
    [
        ("chess", "PGN", "e2e4", "1. e4"),
        ("go_5x5", "SGF", "C3", ";B[cc]"),
        ("shogi", "CSA", "7g7f", "+7776FU"),
        ("connect_four", "text", "4", "\n1. 4\n*"),
    ],
)
def test_the_usual_format_of_a_game_is_the_first_and_has_its_move(
    name: str, form: str, move: str, written: str
) -> None:
    first, write = next(iter(writers_of(get_game(name)).items()))
    assert first == form
    assert written in write({"Result": "*"}, "", [WrittenMove(move)], "")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("tic_tac_toe", "x../...", "2 rows, expected 3"),
        ("tic_tac_toe", "x../..../...", "row 2 from the top has 4 cells"),
        ("tic_tac_toe", "x../.?./...", r"row 2 from the top: '\?' is none"),
        ("tic_tac_toe", "o../.../...", "0 x and 1 o"),
        ("tic_tac_toe", "xx./x../...", "3 x and 0 o"),
        ("tic_tac_toe", "xxx/ooo/...", "x has won and is to move"),
        ("tic_tac_toe", "xxx/ooo/x..", "o has won and is to move"),
        ("connect_four", "/".join(["......."] * 4 + ["x.o....", "......."]), "column 1"),
        ("go_3x3", ".../... x 0", "is not a position of 3 x 3"),
        ("go_3x3", ".../.../.... x 0", "is not a position of 3 x 3"),
        ("go_3x3", ".../.../... b 0", "is not a position of 3 x 3"),
        ("go_3x3", ".../.../... x 0 1", "is not a position of 3 x 3"),
        ("go_3x3", ".../.../... x 3", "at the end is '3'"),
        ("go_3x3", ".../.b./... x", "'b' is none of 'xo.,'"),
        ("go_3x3", "xo./o../... x", "the x at A3 has no liberty"),
        ("dots_and_boxes_1x2", "10/1o1.0/10", "is not a position of 1 x 2 boxes"),
        ("dots_and_boxes_1x2", "10/1o1.0 x", "is not a position of 1 x 2 boxes"),
        ("dots_and_boxes_1x2", "20/1o1.0/10 x", "'2' stands where one of 0 1 should"),
        ("dots_and_boxes_1x2", "10/1.1.0/10 x", "row 1, column 1 is closed and nobody's"),
        ("dots_and_boxes_1x2", "10/1o0.0/10 x", "row 1, column 1 is somebody's and not closed"),
        ("chess960", "4k3/8/8/8/8/8/8/RK1R3R w HDA - 0 1", "one for each side"),
        ("chess960", "4k3/8/8/8/8/8/8/RK6 w K - 0 1", "'K' needs White's king"),
        ("chess960", "4k3/8/8/8/8/8/8/1KR5 w Q - 0 1", "'Q' needs White's king"),
        ("chess960", "4k3/8/8/8/8/8/8/1KR5 w A - 0 1", "'A' needs White's king"),
        ("chess960", "4k3/8/8/8/8/8/1K6/R7 w A - 0 1", "'A' needs White's king"),
        ("chess960", "4k2r/8/8/8/8/8/8/1KR5 w hh - 0 1", "'h' needs Black's king"),
        ("chess960", "4k3/8/8/8/8/8/8/1KR5 w x - 0 1", "in chess960 also files"),
    ],
)
def test_impossible_positions_are_refused_with_the_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        get_game(name).notation.state_from_text(text)
