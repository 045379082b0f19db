"""Games of shogi as KIF, read again by two other programs."""

import pytest
import shogi.KIF
from test_game_files import played

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.knowledge import ReadGame, WrittenMove
from azselfplay.games.shogi.game_files import csa, read_csa
from azselfplay.games.shogi.kif import kif, read_kif

GAME = get_game("shogi")
HANDS = "4k4/9/2P3p2/9/1r2G1s2/9/9/9/4K2L1 {side} RB2G3S4N3L16P 1"
BARE = "4k4/9/9/9/9/9/9/9/4K4 {side} - 1"


def text_of(game: GameHistory, **tags: str) -> str:
    return kif(tags, game.start, [WrittenMove(move, "well\nplayed") for move in game.moves_text()], "")


@pytest.mark.parametrize("side", "bw")
def test_another_start_is_drawn_as_a_board_with_hands(side: str) -> None:
    start = HANDS.format(side=side)
    (read,) = shogi.KIF.Parser.parse_str(text_of(replay(GAME, start)))
    board, to_move, hands, _ = read["sfen"].split()
    assert [board, to_move] == start.split()[:2]
    assert sorted(hands) == sorted(start.split()[2])
    game = played("shogi", 1, 9, start)
    (after,) = shogi.KIF.Parser.parse_str(text_of(game))
    assert after["moves"] == game.moves_text()


@pytest.mark.parametrize(
    ("reason", "side", "of_csa", "line", "said"),
    [
        ("mate", "b", "%TSUMI", "   1 詰み", "まで0手で後手の勝ち"),
        ("resignation", "w", "%TORYO", "   1 投了", "まで0手で先手の勝ち"),
        ("repetition", "b", "%SENNICHITE", "   1 千日手", "まで0手で千日手"),
        ("declaration", "w", "%KACHI", "   1 入玉勝ち", "まで0手で後手の入玉勝ち"),
        ("perpetual_check_given", "b", "%+ILLEGAL_ACTION", "   1 反則負け", "まで0手で後手の反則勝ち"),
        ("perpetual_check_given", "w", "%-ILLEGAL_ACTION", "   1 反則負け", "まで0手で先手の反則勝ち"),
        ("perpetual_check_suffered", "b", "%-ILLEGAL_ACTION", "   1 反則勝ち", "まで0手で先手の反則勝ち"),
        ("perpetual_check_suffered", "w", "%+ILLEGAL_ACTION", "   1 反則勝ち", "まで0手で後手の反則勝ち"),
        ("ply_cap", "b", "%CHUDAN", "   1 中断", "まで0手で中断"),
    ],
)
def test_the_last_lines_say_how_the_game_ended(
    reason: str, side: str, of_csa: str, line: str, said: str
) -> None:
    """In CSA the reason may stand in the tags or in the last comment."""
    start = BARE.format(side=side)
    assert kif({"Termination": reason}, start, [], "").splitlines()[-2:] == [line, said]
    assert csa({"Termination": reason}, start, [], "").splitlines()[-1] == of_csa
    assert csa({"Termination": "normal"}, start, [], f"{reason}: so it was").splitlines()[-2] == of_csa


@pytest.mark.parametrize(
    ("result", "side", "of_csa", "line", "said"),
    [
        ("0-1", "b", "%TORYO", "   1 投了", "まで0手で後手の勝ち"),
        ("1-0", "w", "%TORYO", "   1 投了", "まで0手で先手の勝ち"),
        ("1/2-1/2", "w", "%HIKIWAKE", "   1 持将棋", "まで0手で持将棋"),
        ("1-0", "b", "%-ILLEGAL_ACTION", "   1 反則勝ち", "まで0手で先手の反則勝ち"),
    ],
)
def test_a_result_is_written_even_if_its_reason_has_no_word(
    result: str, side: str, of_csa: str, line: str, said: str
) -> None:
    tags, start = {"Termination": "recorded", "Result": result}, BARE.format(side=side)
    assert kif(tags, start, [], "").splitlines()[-2:] == [line, said]
    assert csa(tags, start, [], "").splitlines()[-1] == of_csa


def test_a_side_that_resigns_with_its_move_is_not_shown_to_have_played_it() -> None:
    """In self-play a side resigns with its move; in the file formats, the side to move resigns."""
    tags = {"Termination": "resignation", "Result": "0-1"}
    moves = [WrittenMove(move) for move in ("7g7f", "3c3d", "2g2f")]
    assert kif(tags, "", moves, "").splitlines()[-2:] == ["   3 投了", "まで2手で後手の勝ち"]
    assert csa(tags, "", moves, "").splitlines()[-2:] == ["-3334FU", "%TORYO"]
    assert csa({**tags, "Result": "1-0"}, "", moves, "").splitlines()[-2:] == ["+2726FU", "%TORYO"]


def test_a_bookmark_with_a_full_width_colon_belongs_to_its_game() -> None:
    text = "手合割：平手\n   1 ７六歩(77)\n&しおり：角道\n   2 ３四歩(33)\n   3 投了\n"
    (game,) = read_kif(text.encode())
    assert isinstance(game, ReadGame)
    assert (game.moves, game.outcome) == (["7g7f", "3c3d"], -1)


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        *((word, 1) for word in ("詰", "不戦敗", "時間切れ", "投了(0:01)")),
        *((word, None) for word in ("封じ手", "中断", "トライ")),
        ("不戦勝", -1),
    ],
)
def test_a_game_may_end_with_any_word_of_the_format(word: str, outcome: int | None) -> None:
    (game,) = read_kif(f"   1 ７六歩(77)\n   2 {word}\n".encode())
    assert isinstance(game, ReadGame)
    assert game.outcome == outcome
    # What was read is written with the same result, as `azplay annotate` does.
    (again,) = read_kif(kif(game.tags, "", [WrittenMove("7g7f")], "").encode())
    assert isinstance(again, ReadGame)
    assert again.outcome == outcome


@pytest.mark.parametrize(
    ("word", "again"), [("%MAX_MOVES", "%HIKIWAKE"), ("%ILLEGAL_MOVE", "%TORYO"), ("%MATTA", "%CHUDAN")]
)
def test_a_result_of_csa_is_written_again(word: str, again: str) -> None:
    (game,) = read_csa(f"PI\n+\n+7776FU\n{word}\n".encode())
    assert isinstance(game, ReadGame)
    assert csa(game.tags, "", [WrittenMove("7g7f")], "").splitlines()[-1] == again


@pytest.mark.parametrize(
    "move", ["２ ▲７六歩(77)", "３四(33)", "同", "△どこか", "七六歩(77)", "\ufffd四歩打"]
)
def test_a_damaged_move_does_not_end_the_game(move: str) -> None:
    (error,) = read_kif(f"   1 ▲７六歩(77)\n   2 {move}\n".encode())
    assert "move 2 " in str(error)


def test_a_header_may_have_the_colon_of_ascii_and_hands_no_blanks() -> None:
    text = text_of(replay(GAME, HANDS.format(side="b")))
    assert "飛　角　金二" in text
    read = list(read_kif(text.encode()))
    assert isinstance(read[0], ReadGame)
    assert list(read_kif(text.replace("：", ":").replace("　", "").encode())) == read
    (game,) = read_kif("手合割:角落ち\n上手:a\n下手:b\n 1 △３四歩(33)\nhttps://a.b/\n".encode())
    assert isinstance(game, ReadGame)
    assert (game.moves, game.tags) == (["3c3d"], {"White": "b", "Black": "a"})
    assert game.start.endswith(" w - 1")


def test_a_drawn_position_is_read_without_moves_and_an_empty_file_is_not() -> None:
    start = HANDS.format(side="b")
    (problem,) = read_kif(text_of(replay(GAME, start)).encode())
    assert isinstance(problem, ReadGame)
    assert problem.start.split()[0] == start.split()[0]
    (empty,) = read_kif("手合割：平手\n".encode())
    assert str(empty) == "it has neither moves nor a position"
