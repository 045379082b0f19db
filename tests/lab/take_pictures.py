"""Takes new pictures for docs/images: `python tests/lab/take_pictures.py ADDRESS RUN [FOLDER]`.

ADDRESS is that of an `azplay web` that shows RUN, a run of Connect Four that is training on this machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
SCREEN, BOARD = {"width": 1400, "height": 1000}, {"width": 1200, "height": 820}
MOVES = ("column 4", "column 3")


def overview(page: Page, address: str, run: str) -> None:
    """Show the run's page, with its first curves."""
    page.set_viewport_size(SCREEN)
    page.goto(f"{address}/run/{run}")
    page.get_by_text("Evaluations a second").wait_for()
    page.locator(".plot .curve").first.wait_for()


def game(page: Page, address: str, run: str) -> None:
    """Play two moves against the newest network, and ask for a hint for the third."""
    page.set_viewport_size(BOARD)
    page.goto(f"{address}/run/{run}/play")
    page.get_by_label("Simulations a move").select_option("400")
    page.get_by_role("button", name="New game").click()
    for number, name in enumerate(MOVES, 1):
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.locator(".played-moves li")).to_have_count(2 * number)
    page.get_by_role("button", name="Hint").click()
    page.get_by_role("heading", name="What it would play for you").wait_for()


def main(address: str, run: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        expect.set_options(timeout=120_000)
        for name, show in (("web-run", overview), ("web-play", game)):
            page = browser.new_page()
            page.set_default_timeout(120_000)
            show(page, address, run)
            page.screenshot(path=folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else IMAGES)
