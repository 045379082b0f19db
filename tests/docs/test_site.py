"""The documentation builds without a warning, needs nothing from the internet, and lists every setting."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from tyro.conf import Positional

from azselfplay.lab.azplay import COMMANDS as AZPLAY
from azselfplay.lab.generated_pages import COMMANDS, settings_page
from protocol.settings import settings_in

ROOT = Path(__file__).resolve().parents[2]
POSITIONAL = get_args(Positional[int])[1]
"""tyro's mark of an argument without a flag."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


def test_a_page_of_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"?(\S+)", page.read_text())
        assert [one for one in loaded if one.startswith(("http", "//"))] == [], page


def test_the_built_settings_page_has_a_row_for_every_field_of_every_settings_class(site: Path) -> None:
    text = (site / "settings.html").read_text()
    for module, name in COMMANDS.values():
        for path, kind in settings_in(getattr(importlib.import_module(module), name)).items():
            flag = path if POSITIONAL in get_args(kind) else "--" + path.rstrip("_").replace("_", "-")
            assert f"<code>{flag}</code>" in text


def test_every_setting_says_what_it_means() -> None:
    rows = [line for line in settings_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert [row for row in rows if row.endswith("|  |")] == []


def test_the_settings_page_has_every_command_of_azplay() -> None:
    assert [name for name in AZPLAY if f"azplay {name}" not in COMMANDS] == []
