"""Games of shogi as KIF, read again by two other programs."""

import pytest
import shogi.KIF
from test_game_files import played

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.knowledge import ReadGame, WrittenMove
from azselfplay.games.shogi.game_files import csa
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
    ("word", "outcome"), [("詰", 1), ("不戦敗", 1), ("不戦勝", -1), ("封じ手", None), ("中断", None)]
)
def test_a_game_may_end_with_any_word_of_the_format(word: str, outcome: int | None) -> None:
    (game,) = read_kif(f"   1 ７六歩(77)\n   2 {word}\n".encode())
    assert isinstance(game, ReadGame)
    assert game.outcome == outcome


def test_a_drawn_position_is_read_without_moves_and_an_empty_file_is_not() -> None:
    start = HANDS.format(side="b")
    (problem,) = read_kif(text_of(replay(GAME, start)).encode())
    assert isinstance(problem, ReadGame)
    assert problem.start.split()[0] == start.split()[0]
    (empty,) = read_kif("手合割：平手\n".encode())
    assert str(empty) == "it has neither moves nor a position"
