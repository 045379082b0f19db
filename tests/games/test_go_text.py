"""Go: names of games, points and positions, and the messages about impossible ones."""

import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.games.game_history import replay
from azselfplay.games.go import GoRules, game_of
from azselfplay.games.go.notation import action_of, vertex_of
from azselfplay.games.names import is_game, with_board


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (GoRules(), "go"),
        (GoRules(9), "go_9x9"),
        (GoRules(19, komi=-0.5), "go_komi-0.5"),
        (GoRules(5, komi=24.5), "go_5x5_komi24.5"),
        (GoRules(9, 6.5, "situational", suicide=False), "go_9x9_komi6.5_situational_nosuicide"),
        (GoRules(7, komi=9, superko="simple", suicide=False), "go_7x7_komi9_simple_nosuicide"),
    ],
)
def test_the_name_says_what_is_not_usual_and_finds_the_game_again(rules: GoRules, name: str) -> None:
    assert rules.name == name
    assert get_game(name) is game_of(rules)
    assert get_game(name).name == name
    assert is_game(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("go_9x9_komu6.5", "'komu6.5' is none of its options \\(the nearest is komi6.5\\)"),
        ("go_komi6.5_9x9", "in the order 9x9, komi6.5, situational, nosuicide"),
        ("go_9x9_9x9", "give each option once"),
        ("go_19x19", "is called 'go'"),
        ("go_9x9_komi6.50", "is called 'go_9x9_komi6.5'"),
        ("go_9x9_komi7.5", "is called 'go_9x9'"),
        ("go_20x20", "sizes go from 2 to 19; the nearest is go_19x19"),
        ("go_1x1", "the nearest is go_2x2"),
        ("go_9x8", "a Go board is square"),
        ("go_9x9_komi6.3", "a multiple of 0.5"),
        ("go_9x9_komi401", "from -400 to 400"),
        ("go_9x9_kominan", "a multiple of 0.5"),
        ("go_9x9_komi", "'' is not a komi"),
        ("goo", "the nearest is go"),
    ],
)
def test_a_variant_that_there_is_not_names_the_nearest(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        get_game(name)


def test_a_board_is_put_into_the_name_of_its_game() -> None:
    """The usual size is left out. A size for a game with one board is an error, and so is text that is no
    size."""
    assert with_board("go", "9") == "go_9x9"
    assert with_board("go_komi6.5", "9x9") == "go_9x9_komi6.5"
    assert with_board("go_9x9_nosuicide", "19") == "go_nosuicide"
    assert with_board("dots_and_boxes", "2x4") == "dots_and_boxes_2x4"
    assert with_board("chess", "") == "chess"
    with pytest.raises(ValueError, match="chess has one board only; there are sizes of dots_and_boxes, go"):
        with_board("chess", "9")
    with pytest.raises(ValueError, match="'nine' is not a size"):
        with_board("go", "nine")


def test_points_are_gtp_vertices() -> None:
    """Column I is left out, row 1 is at the bottom, the pass comes last; small letters are accepted, too."""
    named = [vertex_of(19, action) for action in (0, 7, 8, 18, 19, 360, 361)]
    assert named == ["A1", "H1", "J1", "T1", "A2", "T19", "pass"]
    for size in (2, 9, 19):
        for action in range(size * size + 1):
            assert action_of(size, vertex_of(size, action)) == action
            assert action_of(size, f" {vertex_of(size, action).lower()} ") == action


@pytest.mark.parametrize(
    "text", ["I5", "K1", "A10", "A0", "A", "5A", "", "A1 B2", "A\u0661", "resign", "A" + "1" * 5000]
)
def test_what_is_no_point_of_the_board_says_which_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="is not a point of 9 x 9: those go from A1 to J9"):
        action_of(9, text)


def test_moves_that_cannot_be_made_are_refused_with_the_reason() -> None:
    game = get_game("go_3x3_nosuicide")
    state = game.notation.state_from_text(".x./x../... o")
    with pytest.raises(ValueError, match="B3 cannot be played here: a stone is there"):
        game.notation.action_from_text(state, "B3")
    with pytest.raises(ValueError, match="A3 cannot be played here: that is suicide"):
        game.notation.action_from_text(state, "A3")


def test_a_position_says_stones_mover_passes_and_points_where_stones_were() -> None:
    game = get_game("go_3x3")
    game_history = replay(game, "", ["B1", "A1", "A2", "pass"])
    assert game.notation.state_to_text(game_history.state) == ".../x../,x. x 1"


def test_a_ko_is_forbidden_by_the_history_only() -> None:
    """The side whose stone was captured may not capture back at once; in the same position read from its
    text, it may."""
    game = get_game("go_5x5")
    moves = ["B1", "C1", "A2", "D2", "B3", "C3", "C2", "B2"]
    game_history = replay(game, "", moves)
    retake = action_of(5, "C2")
    assert retake not in game_history.legal_actions()
    with pytest.raises(ValueError, match="not legal here"):
        game_history.play(retake)
    with pytest.raises(ValueError, match="repeats"):
        game_history.play_text("C2")
    text = game.notation.state_to_text(game_history.state)
    assert retake in replay(game, text, []).legal_actions()
    game_history.play_text("E5")
    game_history.play_text("E4")
    assert retake in game_history.legal_actions()


def test_three_stones_that_are_their_own_suicide_are_taken_off() -> None:
    game = get_game("go_3x3")
    state = game.notation.state_from_text("x.o/xoo/oo. x")
    child = game.after(state, action_of(3, "B3"))
    assert game.notation.state_to_text(child) == ",,o/,oo/oo. o 0"
    assert np.array_equal(game.notation.state_from_text(",,o/,oo/oo. o 0"), child)
