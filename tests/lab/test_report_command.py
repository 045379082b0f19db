"""`azplay report` on runs that go well, that have failed, and that have hardly begun."""

import base64
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from games_runs import records
from report_runs import STEPS, collapsed_run, whole_run

from azselfplay.games import get_game
from azselfplay.games.knowledge import knowledge_of
from azselfplay.host.exits import Exit
from azselfplay.lab.report.command import main
from azselfplay.store.sqlite import Store


def report(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["azplay report", *map(str, arguments)])
    return main()


class Balanced(HTMLParser):
    """Fails if a tag is closed out of order."""

    VOID = ("meta", "img", "br")
    CDATA_CONTENT_ELEMENTS = ("script", "style")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, _: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def data_in(text: str) -> dict[str, Any]:
    """Return what the page's script draws."""
    found = re.search(r'<script type="application/json" id="data">([^<]*)</script>', text)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["tic_tac_toe", "chess"])
def test_a_report_is_one_whole_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images, style and scripts are in it, nothing is fetched, and the run's files stay unchanged. Two games
    are enough: only the pictures of boards differ (games/test_clicks.py)."""
    run = whole_run(tmp_path / "run", name, records(name, 6, versions=(0, 1, 2)))
    before = files_of(run)
    assert report(monkeypatch, run, "--out", tmp_path / "page.html") == Exit.OK
    after = {path: data for path, data in files_of(run).items() if not path.endswith(("-wal", "-shm"))}
    assert after == before
    text = (tmp_path / "page.html").read_text()
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert not re.findall(r"<link|<iframe|url\(h|^import |@import|<script[^>]* src", text, re.MULTILINE)
    for source in re.findall(r'src="([^"]*)"', text):
        assert source.startswith("data:image/svg+xml;base64,")
        ElementTree.fromstring(base64.b64decode(source.partition(",")[2]))
    data = data_in(text)
    assert [chart["title"] for chart in data["games"]] == ["Results", "Ends"]
    wanted = {"Policy loss", "Results in the window", "Values of known positions", "What the search adds"}
    assert {chart["title"] for chart in data["history"]["charts"]} >= wanted
    assert data["history"]["columns"]["trainer/step"][-1] == STEPS - 1
    assert "strength" in data["history"]
    differ = {one["name"]: (one["value"], one["default"]) for one in data["settings"] if one["differs"]}
    assert differ["self_play.search.simulations"] == ("20", "800")
    drawn = knowledge_of(get_game(name)).svg is not None
    assert (text.count('class="board"'), text.count("<pre>")) == ((9, 0) if drawn else (0, 9))


def test_numbers_are_written_in_one_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page once had 10570 games beside 199,064 positions."""
    run = whole_run(tmp_path / "run", "tic_tac_toe", records("tic_tac_toe", 1))
    figures = {"games": 10570, "positions": 199064, "games_per_h": 16741.83, "policy_loss": 2.14126}
    (run / "figures.json").write_text(json.dumps(figures))
    report(monkeypatch, run)
    text = (run / "report.html").read_text()
    rows = {"games": "10,570", "positions": "199,064", "games per h": "16,742", "policy loss": "2.141"}
    for name, written in rows.items():
        assert f"<td>{name}</td><td>{written}</td>" in text


def test_a_collapse_is_on_the_page_and_on_stderr(tmp_path: Path, monkeypatch, capsys) -> None:
    run = collapsed_run(tmp_path / "run")
    assert report(monkeypatch, run) == Exit.OK
    text, printed = (run / "report.html").read_text(), capsys.readouterr()
    assert printed.out == f"{run / 'report.html'}\n"
    assert "ALERT draw collapse: 100%, 100%, 100% draws" in printed.err
    assert "<h3>draw collapse</h3>" in text
    assert "<h3>repetitions</h3>" in text
    assert "Likely cause" in text


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Make a run without a game, a figure, or any file but the store."""
    (tmp_path / "run").mkdir()
    Store(tmp_path / "run" / "games.db", "chess").close()
    return tmp_path / "run"


def test_a_run_that_has_just_begun_has_a_page(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its charts have no figures."""
    assert report(monkeypatch, begun) == Exit.OK
    text = (begun / "report.html").read_text()
    assert "No game is finished yet" in text
    assert "Not recorded: nothing is judged before training step 1,000." in text


def test_names_in_a_run_cannot_break_the_page(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text from files stays text and never becomes markup, also in the data of the script."""
    (begun / "figures.json").write_text(json.dumps({"<b>": "<script>"}))
    (begun / "config.toml").write_text('net = "</script><b>"')
    report(monkeypatch, begun)
    text = (begun / "report.html").read_text()
    assert "&lt;script&gt;" in text
    assert text.count("<script") == 2
    assert data_in(text)["settings"][0]["value"] == "</script><b>"
