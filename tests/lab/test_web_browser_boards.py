"""Boards in a real browser: what is drawn, and how moves are chosen."""

import re
from pathlib import Path

import numpy as np
import pytest
from web_runs import run_with_games

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.play.kernel_players import alphabeta_think

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BOARD = """async ([svg, spots, legal, owners]) => {
  const { Board } = await import("/assets/board.js");
  window.played = [];
  const board = new Board((text) => window.played.push(text));
  document.getElementById("main").append(board.element);
  board.show({ svg, spots, width: 100, height: 100, position: "here", text: "x o" }, legal, [], owners);
}"""
"""Shows a board with the moves `legal`, independent of any game."""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"/>'
SPOTS = [["e7", 0, 0, 50, 50], ["e8", 50, 0, 50, 50], ["d8", 0, 50, 50, 50]]
PROMOTIONS = [
    {"text": "e7e8q", "clicks": ["e7", "e8"]},
    {"text": "e7e8n", "clicks": ["e7", "e8"]},
    {"text": "e7d8", "clicks": ["e7", "d8"]},
    {"text": "d8e7", "clicks": ["d8", "e7"]},
    {"text": "pass", "clicks": []},
]


def test_moves_with_the_same_clicks_are_told_apart_by_buttons(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/compare")
    page.evaluate(BOARD, [SVG, SPOTS, PROMOTIONS])
    page.get_by_role("button", name="e7", exact=True).click()
    page.get_by_role("button", name="to e8").click()
    which = page.get_by_role("group", name="Which move").get_by_role("button")
    sync_api.expect(which).to_have_text(["e7e8q", "e7e8n"])
    which.nth(1).click()
    page.get_by_role("button", name="e7, chosen").click()
    page.get_by_role("button", name="to d8").click()
    page.locator(".passes").get_by_role("button", name="pass").click()
    assert page.evaluate("window.played") == ["e7e8n", "e7d8", "pass"]


def test_a_move_that_begins_a_longer_one_is_a_button_while_that_can_be_clicked(
    page: sync_api.Page, site: str
) -> None:
    page.goto(site + "/compare")
    page.evaluate(BOARD, [SVG, SPOTS, [{"text": "e7", "clicks": ["e7"]}, *PROMOTIONS]])
    page.get_by_role("button", name="e7", exact=True).and_(page.locator(".spot")).click()
    page.get_by_role("button", name="to d8").click()
    page.get_by_role("button", name="e7, chosen").click()
    page.get_by_role("group", name="Which move").get_by_role("button").click()
    assert page.evaluate("window.played") == ["e7d8", "e7"]


def test_owners_are_drawn_the_larger_the_surer_and_catch_no_click(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/compare")
    page.evaluate(BOARD, [SVG, SPOTS, PROMOTIONS, {"e7": 0.5, "e8": -1, "d8": 0.1, "pass": 1}])
    sizes = [(one.get_attribute("class"), one.get_attribute("width")) for one in page.locator(".owner").all()]
    assert sizes == [("owner", "10"), ("owner second", "20")]
    page.get_by_role("button", name="e7", exact=True).click()
    page.get_by_role("button", name="to d8").click()
    assert page.evaluate("window.played") == ["e7d8"]


def test_a_finger_drags_a_piece_and_not_the_page(browser: sync_api.Browser, site: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 300}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(site + "/compare")
    page.evaluate(BOARD, [SVG, SPOTS, PROMOTIONS])
    box = page.locator(".board").bounding_box()
    assert box is not None
    page.evaluate("y => scrollTo(0, y)", box["y"])
    x = box["x"] + box["width"] / 4
    y = page.evaluate("document.querySelector('.board').getBoundingClientRect().y")
    touch = context.new_cdp_session(page)
    for kind, share in (("touchStart", 0.6), *[("touchMove", 0.6 - step / 20) for step in range(9)]):
        point = {"x": x, "y": y + share * box["height"]}
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.evaluate("window.played") == ["d8e7"]
    context.close()


def test_a_whole_game_of_chess_is_dragged_and_found_again(page: sync_api.Page, site: str, runs: Path) -> None:
    run_with_games(runs, "chess", "chess", games=1)
    page.goto(site + "/run/chess/play")
    page.get_by_label("Simulations a move").select_option("1")
    page.get_by_role("button", name="New game").click()
    state, moves = page.locator(".state"), page.locator(".played-moves button")
    sync_api.expect(state).to_have_text("Your move: you are White.")
    drag(page, "g1g3")  # not a knight's move; the knight can be dragged again
    chess, rng = get_game("chess"), np.random.default_rng(1)
    game, think = GameHistory(chess), alphabeta_think(chess, 3)
    while game.end_reason() is None:
        move = chess.notation.action_to_text(game.state, think(game, rng))
        drag(page, move)
        game.play_text(move)
        sync_api.expect(moves).to_have_count(game.ply + (game.end_reason() is None))
        for reply in page.evaluate("JSON.parse(localStorage['play chess']).moves")[game.ply :]:
            game.play_text(reply)
    sync_api.expect(state).to_have_text(re.compile("^You won: checkmate"))
    page.reload()
    sync_api.expect(moves).to_have_count(game.ply)
    moves.nth(0).click()
    sync_api.expect(state).to_have_text(re.compile(r"^The position after 1\. "))


def test_the_network_moves_until_it_is_the_persons_turn(page: sync_api.Page, site: str, runs: Path) -> None:
    """Each of the two lines that are left closes a box, so the network draws both."""
    run_with_games(runs, "dots_and_boxes_2x2", "dots", games=1)
    page.goto(site + "/run/dots/play")
    page.get_by_label("Start from").fill("a1a2 b1b2 a1b1 b3c3 c2c3 a3b3 b2c2 a2a3 c1c2 b2b3")
    page.get_by_role("button", name="New game").click()
    sync_api.expect(page.locator(".state")).to_have_text(re.compile("^You lost: "))
    sync_api.expect(page.locator(".played-moves li")).to_have_count(12)


def drag(page: sync_api.Page, move: str) -> None:
    """Drag a piece of White from square to square, slowly enough for the page to see it."""
    box = page.locator(".board .overlay").bounding_box()
    assert box is not None
    for square, act in ((move[:2], page.mouse.down), (move[2:4], page.mouse.up)):
        file, rank = "abcdefgh".index(square[0]), 8 - int(square[1])
        x, y = (15 + 45 * (place + 0.5) for place in (file, rank))  # as python-chess draws 390 x 390
        page.mouse.move(box["x"] + x * box["width"] / 390, box["y"] + y * box["height"] / 390, steps=4)
        act()
    if move[4:]:
        which = page.get_by_role("group", name="Which move")
        which.get_by_role("button", name=f"={move[4].upper()}").click()


def test_a_stored_game_is_played_on_from_the_position_shown_without_another_click(
    page: sync_api.Page, site: str
) -> None:
    page.goto(site + "/run/a-run/games/1#3")
    page.get_by_role("link", name="Play on from here").click()
    sync_api.expect(page.locator(".state")).to_have_text("Your move: you are O.")
    sync_api.expect(page.locator(".played-moves li")).to_have_count(3)
    sync_api.expect(page.locator(".spot")).to_have_count(6)
    sync_api.expect(page.get_by_role("button", name="Hint")).to_be_enabled()
