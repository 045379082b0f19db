"""Boards in a real browser: what is drawn, and how moves are chosen."""

from __future__ import annotations

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BOARD = """async ([svg, spots, legal]) => {
  const { Board } = await import("/assets/board.js");
  window.played = [];
  const board = new Board((text) => window.played.push(text));
  document.getElementById("main").append(board.element);
  board.show({ svg, spots, width: 100, height: 100, position: "here", text: "x o" }, legal);
}"""
"""Shows a board with the moves `legal`, independent of any game."""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"/>'
SPOTS = [["e7", 0, 0, 50, 50], ["e8", 50, 0, 50, 50], ["d8", 0, 50, 50, 50]]
PROMOTIONS = [
    {"text": "e7e8q", "clicks": ["e7", "e8"]},
    {"text": "e7e8n", "clicks": ["e7", "e8"]},
    {"text": "e7d8", "clicks": ["e7", "d8"]},
    {"text": "pass", "clicks": []},
]


def test_words_below_a_board_of_text_wrap_and_its_rows_do_not(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/compare")
    footer = "(cells 1-25, row by row from the bottom left; x joins bottom and top, o left and right) " * 4
    page.evaluate(BOARD.replace('text: "x o"', f'text: ". x o .\\n{footer}"'), [None, [], []])
    drawing = page.locator(".drawing")
    assert drawing.evaluate("one => one.scrollWidth <= one.clientWidth")
    rows = drawing.locator("span").evaluate_all("all => all.map((one) => getComputedStyle(one).whiteSpace)")
    assert rows == ["pre", "pre-wrap"]


def test_moves_with_the_same_clicks_are_told_apart_by_buttons(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/compare")
    page.evaluate(BOARD, [SVG, SPOTS, PROMOTIONS])
    page.get_by_role("button", name="e7", exact=True).click()
    page.get_by_role("button", name="to e8").click()
    which = page.get_by_role("group", name="Which move").get_by_role("button")
    assert which.all_inner_texts() == ["e7e8q", "e7e8n"]
    which.nth(1).click()
    page.get_by_role("button", name="e7, chosen").click()
    page.get_by_role("button", name="to d8").click()
    page.locator(".passes").get_by_role("button", name="pass").click()
    assert page.evaluate("window.played") == ["e7e8n", "e7d8", "pass"]


def test_a_game_without_a_picture_is_played_by_buttons(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/compare")
    page.evaluate(BOARD, [None, [], [{"text": "b4", "clicks": []}, {"text": "c3", "clicks": []}]])
    sync_api.expect(page.locator(".drawing")).to_have_text("x o")
    page.get_by_role("button", name="c3").click()
    assert page.evaluate("window.played") == ["c3"]


def test_buttons_of_a_game_without_a_picture_have_the_shape_of_the_board(
    page: sync_api.Page, site: str
) -> None:
    """Cell 3 is taken, and so is the whole middle row; the pass has no cell and stands apart."""
    page.goto(site + "/compare")
    cells = {"7": [0, 0], "8": [0, 1], "9": [0, 2], "1": [2, 0], "2": [2, 1]}
    legal = [{"text": text, "clicks": [], "place": place} for text, place in cells.items()]
    page.evaluate(BOARD, [None, [], [*legal, {"text": "pass", "clicks": [], "place": None}]])
    boxes = {one.inner_text(): one.bounding_box() for one in page.locator(".moves .move").all()}
    lefts, tops = ({text: box[side] for text, box in boxes.items()} for side in ("x", "y"))
    assert lefts["7"] == lefts["1"] < lefts["8"] == lefts["2"] < lefts["9"]
    assert tops["7"] == tops["8"] == tops["9"]
    assert tops["1"] == tops["2"] > tops["7"] + 2 * boxes["7"]["height"]
    assert page.locator(".passes .move").all_inner_texts() == ["pass"]


def test_all_moves_of_a_search_are_shaded_and_the_page_says_what_the_shades_mean(
    page: sync_api.Page, site: str
) -> None:
    def of_nine_moves(route: sync_api.Route) -> None:
        answer = route.fetch()
        found = answer.json()
        cells = [
            {"text": str(n), "clicks": [f"cell {n}"], "visits": n, "share": n / 45} for n in range(1, 10)
        ]
        found["search"]["candidates"] = cells
        route.fulfill(response=answer, json=found)

    page.route("**/games/1/at/0", of_nine_moves)
    page.goto(site + "/run/a-run/games/1")
    rows = page.get_by_role("region", name="Moves by visits").locator("tbody tr")
    rows.first.wait_for()
    assert page.locator(".shade").count() == rows.count() == 9
    sync_api.expect(page.get_by_text("Green: moves that the search tried")).to_be_visible()


def test_a_stored_game_is_played_on_from_the_position_shown_without_another_click(
    page: sync_api.Page, site: str
) -> None:
    page.goto(site + "/run/a-run/games/1#3")
    page.get_by_role("link", name="Play on from here").click()
    sync_api.expect(page.locator(".state")).to_have_text("Your move: you are the second player.")
    sync_api.expect(page.locator(".played-moves li")).to_have_count(3)
    assert page.locator(".spot").count() == 6
    sync_api.expect(page.get_by_role("button", name="Play from this position")).to_be_enabled()
