"""The pages in a real browser: Debian's chromium, driven by playwright. Skipped where there is none."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from report_runs import STEPS, figures
from web_runs import run_with_games

from azselfplay.host.runs import RunFolder
from azselfplay.lab.report.curves import CHARTS
from azselfplay.lab.report.page import collect
from azselfplay.lab.report.page import page as report_page
from azselfplay.store.reader import StoreReader

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

PHONE, SCREEN = {"width": 390, "height": 800}, {"width": 1400, "height": 900}


OVER = re.compile(r"^You (won|lost): three in a row\.$|^A draw: the board is full\.$")
MINE_OR_OVER = re.compile(f"Your move|{OVER.pattern}")


def at_step(step: int) -> re.Pattern[str]:
    return re.compile(f"at training step {step}:")


PAGES = {
    "/": "another",
    "/run/a-run": "Policy loss",
    "/run/a-run/games": "Searched games 1 to 6",
    "/run/a-run/games/1": "Value for the first player",
    "/run/a-run/play": "New game",
    "/run/a-run/strength": "Ladder",
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


def test_a_game_is_played_to_its_end_by_clicking(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run/play")
    page.get_by_label("Simulations a move").select_option("10")
    page.get_by_role("button", name="New game").click()
    status = page.locator(".state")
    for _ in range(9):
        sync_api.expect(status).to_have_text(MINE_OR_OVER)
        if "Your move" not in status.inner_text():
            break
        before = page.locator(".played-moves li").count()
        page.locator(".spot").first.click()
        sync_api.expect(page.locator(".played-moves li").nth(before)).to_be_visible()
    sync_api.expect(status).to_have_text(OVER)
    assert page.locator(".spot").count() == 0


def test_hints_and_moves_work_with_the_keyboard(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run/play")
    page.get_by_role("button", name="New game").press("Enter")
    page.get_by_role("button", name="Hint").press("Enter")
    page.get_by_role("heading", name="What it would play for you").wait_for()
    assert page.locator(".shade").count() > 0
    page.get_by_role("button", name="cell 5", exact=True).press("Enter")
    sync_api.expect(page.locator(".played-moves li")).to_have_count(2)
    page.get_by_text("All 7 moves as buttons").press("Enter")
    sync_api.expect(page.locator(".moves .move")).to_have_count(7)
    page.get_by_role("button", name="Take back").press("Enter")
    sync_api.expect(page.locator(".played-moves li")).to_have_count(0)


def test_a_stored_game_is_stepped_through_with_the_keyboard(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run/games/1")
    page.get_by_text("Position 0 of").wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_text("Position 1 of").wait_for()
    assert "x" in (page.locator(".picture").get_attribute("alt") or "")
    page.keyboard.press("End")
    page.get_by_role("heading", name="End of the game").wait_for()


def test_a_variation_that_a_search_finds_is_looked_at_and_left_again(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run/games/1#2")
    page.get_by_role("button", name="Search here").press("Enter")
    lines = page.get_by_role("region", name="Variations")
    lines.get_by_role("button", name=re.compile("^Show the position after . .$")).first.press("Enter")
    sync_api.expect(page.locator(".where")).to_contain_text("Variation from position 2:")
    alt = page.locator(".picture").get_attribute("alt") or ""
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
        file.write(json.dumps(figures(STEPS + 60)) + "\n")
    sync_api.expect(chart).to_have_attribute("aria-label", at_step(STEPS + 60))
    page.get_by_role("button", name="Policy loss: zoom in").click()
    all_again = page.get_by_role("button", name="Policy loss: show everything")
    sync_api.expect(all_again).to_be_enabled()
    sync_api.expect(chart).not_to_have_attribute("aria-label", at_step(STEPS + 60))
    all_again.click()
    sync_api.expect(chart).to_have_attribute("aria-label", at_step(STEPS + 60))


LABELS = """async ([places, percent]) => (await import("/assets/chart.js")).labels(places, percent)"""


@pytest.mark.parametrize(
    ("places", "percent", "labels"),
    [
        ([0.1, 0.15, 0.2], False, ["0.10", "0.15", "0.20"]),
        ([0.1, 0.1005, 0.101], False, ["0.1000", "0.1005", "0.1010"]),
        ([0, 500, 1000], False, ["0", "500", "1000"]),
        ([10_000, 10_500], False, ["10.0k", "10.5k"]),
        ([-2_000_000, 0], False, ["-2M", "0M"]),
        ([0.001, 0.0015], True, ["0.10 %", "0.15 %"]),
        ([-0.2, 0, 0.2], False, ["-0.2", "0.0", "0.2"]),
        ([7], False, ["7"]),
    ],
)
def test_places_of_an_axis_have_the_digits_that_tell_them_apart(
    page: sync_api.Page, site: str, places: list[float], percent: bool, labels: list[str]
) -> None:
    page.goto(site + "/compare")
    assert page.evaluate(LABELS, [places, percent]) == labels


TICKS = """async (args) => (await import("/assets/chart.js")).ticks(...args)"""


def test_marks_of_an_axis_are_as_far_apart_as_asked(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/compare")
    assert page.evaluate(TICKS, [0, 3, 12]) == pytest.approx([0.5 * n for n in range(7)])
    assert page.evaluate(TICKS, [0, 3, 12, 1]) == [0, 1, 2, 3]


def test_values_of_a_game_have_the_same_form_in_the_legend_as_in_the_text(
    page: sync_api.Page, site: str
) -> None:
    page.goto(site + "/run/a-run/games/1")
    page.get_by_text("Position 0 of").wait_for()
    written = page.locator(".legend b").all_inner_texts()
    assert [bool(re.fullmatch(r"[+−]\d\.\d{3}", text)) for text in written] == [True, True]
    assert written[0] in page.get_by_role("region", name="The search in this position").inner_text()


def test_the_fields_of_a_filter_are_in_one_line(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/run/a-run/games")
    fields = page.locator(".fields :is(select, input, button)")
    fields.first.wait_for()
    boxes = [one.bounding_box() for one in fields.all()]
    assert len(boxes) == 7
    assert len({(box["y"], box["height"]) for box in boxes}) == 1


def test_a_run_and_its_alerts_are_first_in_the_list(page: sync_api.Page, site: str) -> None:
    page.goto(site)
    page.locator("tbody tr").first.wait_for()
    assert page.locator("th").all_inner_texts()[:4] == ["Run", "Alerts", "State", "Game"]


def test_strength_has_a_dot_for_each_new_count_of_errors(page: sync_api.Page, site: str, runs: Path) -> None:
    """The trainer repeats its newest count in every row of figures."""
    folder = run_with_games(runs, "tic_tac_toe", "measured", games=1)
    rows = [{**figures(1 + at), "known_errors/tree": share} for at, share in enumerate([0.5, 0.5, 0.5, 0.2])]
    (folder / "figures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page.goto(site + "/run/measured/strength")
    chart = page.locator("figure", has=page.get_by_role("heading", name="Errors in known positions"))
    sync_api.expect(chart.locator(".dot")).to_have_count(2)
    sync_api.expect(chart).to_contain_text("tree: positions of the whole game")


def test_a_report_fits_a_phone(page: sync_api.Page, tmp_path: Path) -> None:
    run_with_games(tmp_path, "tic_tac_toe")
    report = RunFolder(tmp_path, "a-run")
    with closing(StoreReader(report.games)) as games:
        text = report_page(collect(report, games, 2))
    page.set_viewport_size(PHONE)
    page.set_content(text)
    assert page.locator("figure").count() > 3
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


HEIGHTS = """async ([about, ys, zoom]) => {
  const { Chart } = await import("/assets/chart.js");
  const chart = new Chart({ title: "t", ...about });
  chart.series = [{ xs: ys.map((_, at) => at), ys }];
  chart.zoom = zoom;
  return chart.heights(chart.seen());
}"""


@pytest.mark.parametrize(
    ("about", "ys", "zoom", "low", "high"),
    [
        ({}, [0.188, 0.196], None, 0, 0.208),  # without a least span it begins at 0
        ({}, [0.188, 0.196], [0, 1], 0.182, 0.202),  # zoomed in: a tenth of the value at least
        ({}, [2, 4], [0, 1], 1.88, 4.12),
        ({"percent": True}, [0.97, 1.0], None, 0, 1),
        ({"least_span": 0.5}, [-0.02, 0.02], None, -0.25, 0.25),
        ({}, [0, 0], None, 0, 1),
    ],
)
def test_an_axis_does_not_make_a_cliff_of_values_that_hardly_differ(
    page: sync_api.Page,
    site: str,
    about: dict[str, object],
    ys: list[float],
    zoom: list[float] | None,
    low: float,
    high: float,
) -> None:
    page.goto(site + "/compare")
    assert page.evaluate(HEIGHTS, [about, ys, zoom]) == pytest.approx([low, high], abs=1e-3)


DOTS = """async () => {
  const { Curves } = await import("/assets/curves.js");
  const columns = { "trainer/step": [1, 2, 3, 4, 5], time: [1, 2, 3, 4, 5], loss: [5, 4, 4, 3, 2],
    "known_errors/all": [null, 0, 0, 0, 0], "trainer/held_out_value_loss": [null, 0.9, 0.9, 0.8, 0.8] };
  const charts = [{ title: "t", curves: Object.keys(columns).slice(2).map((name) => [name, name]) }];
  return new Curves([["a", { charts, columns }]]).charts.get("t").series.map((one) => one.ys);
}"""


def test_what_is_measured_once_a_publication_has_one_dot_for_each(page: sync_api.Page, site: str) -> None:
    """The errors did not change, but the second measurement shows, because the held-out loss is new."""
    page.goto(site + "/compare")
    assert page.evaluate(DOTS) == [[5, 4, 4, 3, 2], [None, 0, None, 0, None], [None, 0.9, None, 0.8, None]]


TIME_AXIS = """async (lengths) => {
  const { Curves } = await import("/assets/curves.js");
  const charts = [{ title: "t", curves: [["loss", "loss"]] }];
  const columns = (length) => ({ "trainer/step": [1, 2], time: [1000, 1000 + length], loss: [5, 4] });
  const run = (length) => ({ charts, columns: columns(length) });
  const curves = new Curves(lengths.map((length, at) => [`run ${at}`, run(length)]));
  curves.axis = "time";
  curves.draw();
  const chart = curves.charts.get("t");
  return [chart.xLabel, ...chart.series.map((one) => one.xs[1])];
}"""


@pytest.mark.parametrize(
    ("seconds", "axis"),
    [([300], ["minutes", 5]), ([7200], ["hours", 2]), ([300, 7200], ["hours", 1 / 12, 2])],
)
def test_short_runs_have_minutes_on_their_time_axis(
    page: sync_api.Page, site: str, seconds: list[int], axis: list[object]
) -> None:
    """Two runs in one chart have the same unit: that of the longer run."""
    page.goto(site + "/compare")
    assert page.evaluate(TIME_AXIS, seconds) == pytest.approx(axis)


def test_every_chart_says_what_its_y_axis_shows() -> None:
    assert all(chart.unit for chart in CHARTS)


def test_two_runs_differ_by_colour_and_figures_by_dashes(page: sync_api.Page, site: str) -> None:
    page.goto(site + "/compare?a=a-run&b=another")
    chart = page.locator("figure", has=page.get_by_role("heading", name="Policy loss"))
    chart.locator(".legend li").first.wait_for()
    looks = [line.get_attribute("class") for line in chart.locator(".legend line").all()]
    assert looks == ["curve c0 d0", "curve c0 d2", "curve c1 d0", "curve c1 d2"]
    named = [text.rsplit(" ", 1)[0] for text in chart.locator(".legend li").all_inner_texts()]
    figures_of = ["training", "entropy of the targets"]
    assert named == [f"{run}: {figure}" for run in ("a-run", "another") for figure in figures_of]


def test_a_run_that_ends_is_shown_as_ended_with_its_final_figures(
    page: sync_api.Page, site: str, runs: Path
) -> None:
    folder = RunFolder(runs, run_with_games(runs, "tic_tac_toe", "ending").name)
    with folder.lock("trainer"):
        page.goto(site + "/run/ending")
        page.get_by_text("Running.").wait_for()
        sync_api.expect(page.locator(".cards")).to_contain_text("Queue wait")  # its place, before it is known
        folder.write_figures({"games": 4321, "step": STEPS, "weights_version": 4, "alerts": []})
    page.get_by_text("Ended. These are its final figures.").wait_for()
    sync_api.expect(page.locator(".cards")).to_contain_text("4,321")
    sync_api.expect(page.locator(".cards")).to_contain_text("ended")
