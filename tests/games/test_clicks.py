"""How clicks on the picture of a board are read."""

import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from every_game import EVERY_GAME

from azselfplay.games import drawn as pictures
from azselfplay.games import get_game
from azselfplay.games.boards import Clicks, Spot
from azselfplay.games.drawn import COLOURS
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.knowledge import Knowledge, Words, knowledge_of, picture_of, sides_on_picture
from azselfplay.games.shogi.notation import LAST
from azselfplay.games.spec import Game, State
from azselfplay.lab.web.games import spots_of

SVG = "{http://www.w3.org/2000/svg}"


def play_again(parent: State, action: int, child: State) -> None:
    """Play as in tic-tac-toe; after a stone on an even cell the same side moves again."""
    TIC.rules.play(parent, action, child)
    if action % 2 == 0:
        child[:2] = child[1::-1].copy()
        child[2] += np.uint64(1)


TIC = get_game("tic_tac_toe")
OWN = replace(TIC, name="moves twice", knowledge="", rules=replace(TIC.rules, play=play_again))
"""A game of which nothing but the rules is known."""
NAMES = [f"{col}{row}" for row in "123" for col in "abc"]
LETTERED = replace(
    TIC,
    name="lettered",
    knowledge="",
    notation=replace(
        TIC.notation,
        action_to_text=lambda _, action: NAMES[action] + NAMES[(action + 3) % 9],
        action_from_text=lambda _, text: NAMES.index(text[:2]),
    ),
)
"""A game whose moves name two cells, such as `b1b2`."""


def game_of(name: str) -> Game:
    return OWN if name == OWN.name else get_game(name)


def clicks_of(name: str) -> Clicks:
    return knowledge_of(game_of(name)).clicks


def drawn(name: str, moves: list[str]) -> ElementTree.Element:
    game = game_of(name)
    state = replay(game, "", moves).state
    return ElementTree.fromstring(picture_of(game)(state, moves[-1] if moves else ""))


@pytest.mark.parametrize("name", [*EVERY_GAME, OWN.name])
def test_every_legal_action_is_clicked_on_spots_of_the_picture_or_has_none(name: str) -> None:
    game, clicks = game_of(name), clicks_of(name)
    spots, rng, going = {spot.name for spot in clicks.spots}, np.random.default_rng(1), GameHistory(game)
    assert len(spots) == len(clicks.spots)
    for _ in range(60):
        texts: dict[tuple[str, ...], set[str]] = {}
        for action in (actions := going.legal_actions().tolist()):
            clicked = clicks.clicked(going.state, action)
            assert spots.issuperset(clicked)
            texts.setdefault(clicked, set()).add(game.notation.action_to_text(going.state, action))
        assert sum(map(len, texts.values())) == len(actions)
        going.play(int(rng.choice(actions)))
        if going.end_reason() is not None:
            break


@pytest.mark.parametrize("name", [*EVERY_GAME, OWN.name])
def test_spots_lie_inside_the_picture_and_do_not_overlap(name: str) -> None:
    clicks = clicks_of(name)
    root = drawn(name, [])
    assert root.get("viewBox") == f"0 0 {clicks.width:g} {clicks.height:g}"
    for at, spot in enumerate(clicks.spots):
        assert spot.x >= 0
        assert spot.y >= 0
        assert spot.x + spot.width <= clicks.width
        assert spot.y + spot.height <= clicks.height
        assert not any(overlap(spot, other) for other in clicks.spots[at + 1 :])


def overlap(one: Spot, other: Spot) -> bool:
    apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
    apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
    return not (apart_x or apart_y)


@pytest.mark.parametrize("turned", [False, True])
def test_the_spots_of_chess_are_the_squares_that_python_chess_draws(turned: bool) -> None:
    clicks, start = clicks_of("chess"), GameHistory(get_game("chess")).state
    picture = ElementTree.fromstring(clicks.svg_turned(start, "")) if turned else drawn("chess", [])
    squares = {
        rect.get("class", "").split()[-1]: (float(rect.get("x", 0)), float(rect.get("y", 0)))
        for rect in picture.iter(f"{SVG}rect")
        if rect.get("class", "").startswith("square")
    }
    assert squares == {spot.name: (spot.x, spot.y) for spot in spots_of(clicks, turned=turned)}


@pytest.mark.parametrize(
    ("name", "moves", "action", "clicked"),
    [
        ("chess", ["e2e4"], "e7e5", ("e7", "e5")),
        ("shogi", ["7g7f", "3c3d", "8h2b+", "3a2b"], "B*5e", ("Black's B in hand", "5e")),
        ("go_9x9", [], "pass", ()),
        ("go_9x9", [], "J9", ("J9",)),
        ("connect_four", ["4"], "3", ("column 3",)),
        ("dots_and_boxes", [], "a1b1", ("edge a1b1",)),
        ("tic_tac_toe", [], "5", ("cell 5",)),
    ],
)
def test_moves_are_clicked_as_people_expect(
    name: str, moves: list[str], action: str, clicked: tuple[str, ...]
) -> None:
    game = get_game(name)
    state = replay(game, "", moves).state
    assert clicks_of(name).clicked(state, game.notation.action_from_text(state, action)) == clicked


def test_a_game_of_ones_own_is_drawn_with_the_colour_of_each_player_and_the_free_moves() -> None:
    """This holds even where a side moves twice, so that planes do not change hands at every move."""
    played, rng = GameHistory(OWN), np.random.default_rng(1)
    movers: list[int] = []
    for _ in range(5):
        movers.append(played.side_to_move)
        played.play(int(rng.choice(played.legal_actions())))
        root = drawn(OWN.name, played.moves_text())
        stones = Counter(circle.get("fill", "") for circle in root.iter(f"{SVG}circle"))
        assert stones == Counter(COLOURS[side] for side in movers)
        free = sorted(text.text or "" for text in root.iter(f"{SVG}text"))
        legal = map(int, played.legal_actions())
        assert free == sorted(OWN.notation.action_to_text(played.state, action) for action in legal)
    assert movers != [0, 1, 0, 1, 0]


def test_moves_that_name_cells_are_clicked_there_and_the_picture_shows_names_and_the_last_move() -> None:
    played = GameHistory(LETTERED)
    played.play_text("b1b2")
    root = ElementTree.fromstring(picture_of(LETTERED)(played.state, "b1b2"))
    assert Counter(text.text for text in root.iter(f"{SVG}text")) == Counter([*"abc123"] * 2)
    clicks = pictures.clicks_of(LETTERED)
    assert root.get("viewBox") == f"0 0 {clicks.width:g} {clicks.height:g}"
    marked = {(rect.get("x"), rect.get("y")) for rect in root.iter(f"{SVG}rect") if rect.get("fill-opacity")}
    corners = {spot.name: (f"{spot.x:g}", f"{spot.y:g}") for spot in clicks.spots}
    assert marked == {corners["b1"], corners["b2"]}
    assert float(corners["a1"][1]) > float(corners["a3"][1])
    for action in played.legal_actions().tolist():
        assert clicks.clicked(played.state, action) == (NAMES[action], NAMES[(action + 3) % 9])


@pytest.mark.parametrize("name", ["chess", "go_9x9", "dots_and_boxes", "tic_tac_toe"])
def test_a_picture_that_is_turned_or_moves_that_name_other_cells_have_no_coordinates(name: str) -> None:
    """Planes of chess are turned for Black, Go leaves out the letter I, and edges lie between dots."""
    game = replace(get_game(name), name=f"undescribed {name}", knowledge="")
    assert not pictures.look_of(game).cells
    assert pictures.clicks_of(game).spots[0].name == f"row {game.rows}, column 1"


def test_own_clicks_are_kept_on_a_drawn_picture_which_calls_the_sides_by_their_colours_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clicks = replace(pictures.clicks_of(LETTERED), clicked=lambda _state, _action: ("c3",))
    known = Knowledge(clicks=clicks, words=Words(("Light", "Dark")))
    monkeypatch.setitem(sys.modules, "of_lettered", SimpleNamespace(KNOWLEDGE=known))
    game = replace(LETTERED, knowledge="of_lettered")
    assert knowledge_of(game) == known
    assert sides_on_picture(game) == ("Light (blue)", "Dark (orange)")
    assert sides_on_picture(LETTERED) == ("Blue", "Orange")
    assert sides_on_picture(get_game("tic_tac_toe")) == ("X", "O")


@pytest.mark.parametrize("turned", [False, True])
def test_the_last_move_of_shogi_is_marked_on_its_squares(turned: bool) -> None:
    clicks, state = clicks_of("shogi"), replay(get_game("shogi"), "", ["7g7f"]).state
    picture = ElementTree.fromstring(clicks.svg_turned(state, "7g7f")) if turned else drawn("shogi", ["7g7f"])
    rects = [rect for rect in picture.iter(f"{SVG}rect") if rect.get("fill") == LAST]
    marked = {(float(rect.get("x", 0)), float(rect.get("y", 0))) for rect in rects}
    spots = spots_of(clicks, turned=turned)
    assert marked == {(spot.x, spot.y) for spot in spots if spot.name in ("7g", "7f")}
