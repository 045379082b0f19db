"""The pages in a real browser: Debian's chromium, driven by playwright. Skipped where there is none."""

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from report_runs import STEPS, figures
from web_runs import run_with_games

from azselfplay.host.runs import RunFolder
from azselfplay.lab.report.page import alerts_of
from azselfplay.lab.report.page import page as report_page
from azselfplay.store.reader import StoreReader

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

PHONE, SCREEN = {"width": 390, "height": 800}, {"width": 1400, "height": 900}


def at_step(step: int) -> re.Pattern[str]:
    return re.compile(f"at training step {step}:")


PAGES = {
    "/": "another",
    "/run/a-run": "Policy loss",
    "/run/a-run/games": "Searched games 1 to 6",
    "/run/a-run/games/1": "Value for the first player",
    "/run/a-run/play": "New game",
    "/compare": "a-run: training",
}


@pytest.mark.parametrize(("path", "text"), PAGES.items())
def test_pages_load_without_errors_and_fit_a_phone_and_a_screen(
    page: sync_api.Page, site: str, path: str, text: str
) -> None:
    for size in (PHONE, SCREEN):
        page.set_viewport_size(size)
        page.goto(site + path)
        page.get_by_text(text).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(NAMELESS) == []


NAMELESS = """() => [...document.querySelectorAll("button, a, select, input, img, [role=img], [role=button]")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.getAttribute("aria-label") || one.getAttribute("alt")
    || one.textContent.trim() || one.labels?.length))
  .map((one) => one.outerHTML)"""
"""Finds the elements for which a screen reader would have no name."""


def test_a_game_is_found_again_after_leaving_the_page_and_after_many_others(
    page: sync_api.Page, site: str
) -> None:
    """The server has dropped two games for others: the page of one was left, that of the other stays open."""
    stays = page.context.browser.new_page()
    for one in (stays, page):
        one.goto(site + "/run/a-run/play")
        one.get_by_role("button", name="New game").click()
        one.get_by_role("button", name="cell 5", exact=True).click()
        sync_api.expect(one.locator(".played-moves li")).to_have_count(2)
    moves = page.locator(".played-moves").inner_text()
    page.goto(site + "/run/a-run")
    for _ in range(9):
        assert page.request.post(site + "/api/run/a-run/play", data={}).ok
    stays.locator(".spot").first.click()
    sync_api.expect(stays.locator(".played-moves li")).to_have_count(4)
    page.goto(site + "/run/a-run/play")
    sync_api.expect(page.locator(".played-moves")).to_have_text(moves.replace("\n", ""))
    page.locator(".spot").first.click()
    sync_api.expect(page.locator(".played-moves li")).to_have_count(4)
    page.reload()
    sync_api.expect(page.locator(".played-moves li")).to_have_count(4)


def test_a_game_that_cannot_be_opened_leaves_the_running_one_as_it_was(
    page: sync_api.Page, site: str
) -> None:
    page.goto(site + "/run/a-run/play")
    page.get_by_role("button", name="New game").click()
    page.get_by_role("button", name="cell 5", exact=True).click()
    sync_api.expect(page.locator(".played-moves li")).to_have_count(2)
    page.get_by_text("Settings of a new game").click()
    page.locator("textarea").fill("nonsense")
    page.get_by_role("button", name="New game").click()
    sync_api.expect(page.get_by_role("alert")).to_contain_text("The position cannot be used")
    page.locator(".spot").first.click()
    sync_api.expect(page.locator(".played-moves li")).to_have_count(4)


def test_hints_and_moves_work_with_the_keyboard(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run/play")
    page.get_by_role("button", name="New game").press("Enter")
    page.get_by_role("button", name="Hint").press("Enter")
    page.get_by_role("heading", name="What it would play for you").wait_for()
    page.locator(".shade").first.wait_for(state="attached")
    page.get_by_role("button", name="cell 5", exact=True).press("Enter")
    sync_api.expect(page.locator(".played-moves li")).to_have_count(2)
    sync_api.expect(page.locator(".spot:focus")).to_have_attribute("data-spot", re.compile("^cell"))
    page.get_by_text("All 7 moves as buttons").press("Enter")
    sync_api.expect(page.locator(".moves .move")).to_have_count(7)
    page.get_by_role("button", name="Take back").press("Enter")
    sync_api.expect(page.locator(".played-moves li")).to_have_count(0)


def test_a_stored_game_is_stepped_through_with_the_keyboard(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run/games/1#0")
    page.get_by_text("Position 0 of").wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_text("Position 1 of").wait_for()
    sync_api.expect(page.locator(".picture")).to_have_attribute("aria-label", re.compile("x"))
    page.keyboard.press("End")
    page.get_by_role("heading", name="End of the game").wait_for()


def test_a_variation_that_a_search_finds_is_looked_at_and_left_again(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run/games/1#2")
    page.get_by_role("button", name="Search here").press("Enter")
    lines = page.get_by_role("region", name="Variations")
    lines.get_by_role("button", name=re.compile("^Show the position after . .$")).first.press("Enter")
    sync_api.expect(page.locator(".where")).to_contain_text("Variation from position 2:")
    alt = page.locator(".picture").get_attribute("aria-label") or ""
    assert alt.count("x") + alt.count("o") - "Board".count("o") == 4
    page.get_by_role("button", name="Back to the game").press("Enter")
    sync_api.expect(page.locator(".where")).to_have_text(re.compile("^Position 2 of"))


def test_curves_follow_a_run_whose_figures_grow_and_can_be_zoomed(
    page: sync_api.Page, site: str, runs: Path
) -> None:
    page.goto(site + "/run/a-run")
    chart = page.get_by_role("img", name="Policy loss at training step")
    sync_api.expect(chart).to_have_attribute("aria-label", at_step(STEPS - 1))
    with (runs / "a-run" / "figures.jsonl").open("a") as file:
        file.write(json.dumps({**figures(STEPS + 60), "known_errors/tree": 0.25}) + "\n")
    sync_api.expect(chart).to_have_attribute("aria-label", at_step(STEPS + 60))
    sync_api.expect(page.get_by_role("img", name="Errors in known positions")).to_be_visible()
    sync_api.expect(page.locator(".card").first).to_contain_text("25 %of the policy")
    page.get_by_role("button", name="Policy loss: zoom in").click()
    all_again = page.get_by_role("button", name="Policy loss: show everything")
    sync_api.expect(all_again).to_be_enabled()
    sync_api.expect(chart).not_to_have_attribute("aria-label", at_step(STEPS + 60))
    all_again.click()
    sync_api.expect(chart).to_have_attribute("aria-label", at_step(STEPS + 60))
    with (runs / "a-run" / "figures.jsonl").open("a") as file:  # the clock of the trainer was set back
        file.write(json.dumps({**figures(STEPS + 61), "known_errors/tree": 0.25, "time": 900.0}) + "\n")
    sync_api.expect(chart).to_have_attribute("aria-label", at_step(STEPS + 61))


def test_cards_show_what_azserver_tells_now_and_no_queue_where_players_evaluate(
    page: sync_api.Page, site: str
) -> None:
    trainer = {"games": 1234, "games_per_h": 60, "step": 77, "waiting_for": "games"}
    live = {"players_evaluate": True, "sessions": {"trainer": 1}, "trainer": trainer}
    summary = {"game": "tic_tac_toe", "state": "running", "running": True, "games": 3, "away": "AWAY"}
    found = {"summary": summary, "live": live, "alerts": [], "players": [], "row": None}
    told = f"data: {json.dumps(found)}\n\n"
    page.route("**/events", lambda route: route.fulfill(content_type="text/event-stream", body=told))
    page.route("**/history", lambda route: route.fulfill(json={"columns": {"time": []}}))
    page.goto(site + "/run/a-run")
    cards = page.locator(".cards")
    sync_api.expect(cards).to_contain_text(re.compile("Games1,23460 an hour.*77training waits for games"))
    sync_api.expect(cards).not_to_contain_text(re.compile("Batches filled|Queue wait"))
    sync_api.expect(page.locator("main")).to_contain_text("No games and no curves here: AWAY.")
    sync_api.expect(page.get_by_role("heading", name="Workers and clients")).to_be_visible()
    trainer["waiting_for"], live["weights_version"] = None, 9
    told = f"data: {json.dumps(found)}\n\n"
    sync_api.expect(cards).to_contain_text("weights version 9")


def test_the_list_of_runs_begins_with_the_run_and_its_state_and_leads_to_play(
    page: sync_api.Page, site: str
) -> None:
    page.goto(site)
    page.locator("tbody tr").first.wait_for()
    assert page.locator("th").all_inner_texts()[:4] == ["Run", "Policy loss", "State", "Game"]
    first = page.locator("tbody tr").first
    sync_api.expect(first.get_by_role("img", name=re.compile("^Policy loss from 2.99 to "))).to_be_visible()
    first.get_by_role("link", name=re.compile("^Play against")).click()
    page.get_by_role("button", name="New game").wait_for()


def test_a_stored_game_opens_at_its_last_decision_with_what_the_network_thinks(
    page: sync_api.Page, site: str
) -> None:
    """Its last moves, and the network of the weights that played, are seen without scrolling or choosing."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(site + "/run/a-run/games/1")
    moves = page.get_by_role("list", name="Moves").get_by_role("button")
    moves.first.wait_for()
    last = moves.count() - 1
    page.get_by_text(f"Position {last} of {last + 1}").wait_for()
    sync_api.expect(moves.nth(last)).to_be_in_viewport()
    sync_api.expect(moves.nth(last - 1)).to_have_attribute("aria-current", "step")
    sync_api.expect(page.get_by_text("for the side to move; win")).to_contain_text("00000")
    moves.nth(1).click()
    page.get_by_text("Position 2 of").wait_for()


def test_curves_can_be_smoothed_and_shown_in_logarithms(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run")
    chart = page.locator("figure", has=page.get_by_role("heading", name="Policy loss", exact=True))
    sync_api.expect(chart.locator(".curve:not(.faint)[d]")).to_have_count(2)
    middle = chart.locator(".tick.y").nth(1)
    before = middle.get_attribute("y")
    page.get_by_label("Smoothing").fill("0.9")
    sync_api.expect(chart.locator(".faint")).to_have_count(2)
    assert chart.locator("li").count() == 2
    page.get_by_label("logarithmic").check()
    assert middle.get_attribute("y") != before


def test_the_strength_of_a_run_stands_first_with_fixed_players_or_the_command_that_measures_it(
    page: sync_api.Page, site: str, runs: Path
) -> None:
    first = page.locator("figure").first
    page.goto(site + "/run/another")
    sync_api.expect(first).to_contain_text(f"azplay ladder {runs}/another")
    rated = {f"v{step}": {"elo": 400.0 + step, "margin95": 40.0} for step in (1, 2)}
    networks = [{"name": n, "label": n, "simulations": 9, "step": int(n[1]), "version": 1} for n in rated]
    fixed = {"random": 0.0, "weak": 300.0, "strong": 500.0, "perfect": 1500.0}
    players = [*networks, *({"name": name, "label": name} for name in fixed)]
    ratings = rated | {name: {"elo": elo, "margin95": 0.0} for name, elo in fixed.items()}
    (runs / "another" / "ratings.json").write_text(json.dumps({"players": players, "ratings": ratings}))
    page.reload()
    sync_api.expect(page.locator(".card").first).to_contain_text("402 Elo")
    sync_api.expect(first.locator(".named")).to_have_text(["weak 300", "strong 500"])
    sync_api.expect(first.locator(".dot")).to_have_count(2)


def test_runs_of_one_game_are_compared_and_their_settings_come_first(
    page: sync_api.Page, site: str, runs: Path
) -> None:
    for name, game, simulations in (("third", "tic_tac_toe", 40), ("four", "connect_four", 20)):
        shutil.copytree(runs / "a-run", runs / name)
        (runs / name / "run.json").write_text(json.dumps({"format": 5, "game": game, "history": 1}))
        (runs / name / "config.toml").write_text(f"[self_play.search]\nsimulations = {simulations}\n")
    page.goto(site + "/compare?run=a-run&run=third&run=four")
    differ = page.get_by_role("region", name="Settings that differ").locator("tr").nth(-1)
    sync_api.expect(differ).to_have_text("azserverself_play.search.simulations2040800")
    boxes = page.get_by_role("group", name="Runs").get_by_role("checkbox")
    sync_api.expect(boxes).to_have_count(3)
    page.get_by_role("checkbox", name="another").check()
    page.get_by_text("another: training").first.wait_for()
    assert page.get_by_text("four: training").count() == 0
    for name in ("third", "four"):
        shutil.rmtree(runs / name)


KEEP_STREAMS = """window.streams = [];
window.EventSource = class extends EventSource { constructor(from) { super(from); streams.push(this); } };"""
SHOW = """isShown => { Object.defineProperty(document, "hidden", { value: !isShown, configurable: true });
document.dispatchEvent(new Event("visibilitychange")); }"""


def test_a_hidden_page_leaves_its_connection_to_others_and_keeps_what_was_chosen(
    page: sync_api.Page, site: str
) -> None:
    """Browsers allow six connections to a server: those of six hidden pages would stop all others."""
    page.add_init_script(KEEP_STREAMS)
    page.goto(site + "/run/a-run")
    page.get_by_label("logarithmic").check()
    page.evaluate(SHOW, False)
    assert page.evaluate("streams.map((one) => one.readyState === EventSource.CLOSED)") == [True]
    with page.expect_response("**/history"):
        page.evaluate(SHOW, True)
    assert page.evaluate("streams.map((one) => one.readyState === EventSource.CLOSED)") == [True, False]
    sync_api.expect(page.get_by_label("logarithmic")).to_be_checked()


def test_a_page_of_a_run_that_was_deleted_says_so(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run")
    page.get_by_label("logarithmic").wait_for()
    page.get_by_role("heading", name="Settings").wait_for()
    page.route("**/settings", lambda route: route.fulfill(status=400, json={"error": "It was deleted."}))
    page.route("**/events", lambda route: route.fulfill(status=400, json={}))
    page.evaluate(SHOW, True)
    sync_api.expect(page.get_by_role("alert")).to_have_text("It was deleted.")
    told = "These figures are no longer updated. Load the page again."
    sync_api.expect(page.locator(".state")).to_have_text(told)


def test_a_table_that_is_drawn_again_keeps_its_place_and_the_focus(page: sync_api.Page, site: str) -> None:
    page.goto(site)
    kept = page.evaluate("""async () => {
      const { el, table, update } = await import("/assets/core.js");
      const place = document.body.appendChild(el("div"));
      const row = (age) => [el("a", { href: "#" }, "run"), age];
      const draw = (...ages) => update(place, table("T", [["Run"], ["Age"]], ages.map(row)));
      draw("1 s", "2 s");
      const [scroll, link] = [".scroll", "a"].map((one) => place.querySelector(one));
      link.focus();
      draw("2 s", "3 s");
      const found = [document.activeElement === link, place.querySelectorAll("td")[1].textContent];
      draw("4 s");
      return [...found, place.querySelector(".scroll") === scroll, place.querySelectorAll("td").length];
    }""")
    assert kept == [True, "2 s", True, 2]


def test_a_curve_with_zeros_out_of_sight_has_logarithms(page: sync_api.Page, site: str) -> None:
    page.goto(site)
    path = page.evaluate("""async () => {
      const { Chart } = await import("/assets/chart.js");
      const chart = Object.assign(new Chart({ title: "T" }), { isLog: true, zoom: [2, 3] });
      document.body.append(chart.element);
      chart.set([{ label: "one", xs: [1, 2, 3], ys: [0, 1, 2] }], "step");
      return chart.svg.querySelector("path").getAttribute("d");
    }""")
    assert re.fullmatch(r"M[\d. ]+L[\d. ]+", path)


def test_a_report_is_drawn_by_the_scripts_of_the_pages_without_a_server_and_fits_a_phone(
    page: sync_api.Page, tmp_path: Path
) -> None:
    run_with_games(tmp_path, "tic_tac_toe")
    report = RunFolder(tmp_path, "a-run")
    with closing(StoreReader(report.games)) as games:
        (tmp_path / "report.html").write_text(report_page(report, games, alerts_of(report)))
    page.context.set_offline(True)
    page.set_viewport_size(PHONE)
    page.goto(f"file://{tmp_path}/report.html")
    for title in ("Policy loss", "Results in the window", "Results"):
        chart = page.locator("figure", has=page.get_by_role("heading", name=title, exact=True))
        sync_api.expect(chart.locator("path.curve").last).to_have_attribute("d", re.compile("^M[1-9]"))
    assert page.locator("h2").all_inner_texts()[:3] == ["Alerts", "Strength", "Learning"]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
