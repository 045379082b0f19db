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


def test_a_stored_game_is_played_on_from_the_position_shown_without_another_click(
    page: sync_api.Page, site: str
) -> None:
    page.goto(site + "/run/a-run/games/1#3")
    page.get_by_role("link", name="Play on from here").click()
    sync_api.expect(page.locator(".state")).to_have_text("Your move: you are the second player.")
    sync_api.expect(page.locator(".played-moves li")).to_have_count(3)
    assert page.locator(".spot").count() == 6
    sync_api.expect(page.get_by_role("button", name="Play from this position")).to_be_enabled()
