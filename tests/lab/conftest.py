"""Fixtures that drive Debian's chromium with playwright; where it is missing, the tests are skipped."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web_runs import pages, run_with_games

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
SCREEN = {"width": 1400, "height": 900}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run_with_games(folder, "tic_tac_toe")
    run_with_games(folder, "tic_tac_toe", "another")
    return folder


@pytest.fixture(scope="module")
def site(runs: Path) -> Iterator[str]:
    """Yield the address of the pages, served by a thread of their own."""
    address: list[str] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with pages(runs) as client:
            address.append(str(client.make_url("/")).rstrip("/"))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    yield address[0]
    loop.call_soon_threadsafe(over.set)
    thread.join(60)
    loop.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no browser at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        sync_api.expect.set_options(timeout=1_000_000)  # a game's rules are compiled meanwhile
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """Yield a page whose console must stay without errors, but for refusals (400), which chromium logs."""
    found, wrong = browser.new_page(viewport=SCREEN), list[str]()
    found.set_default_timeout(1_000_000)

    def heard(said: Any) -> None:
        if said.type in ("error", "warning") and "status of 400" not in said.text:
            wrong.append(said.text)

    found.on("console", heard)
    found.on("pageerror", lambda error: wrong.append(str(error)))
    yield found
    found.close()
    assert wrong == []
