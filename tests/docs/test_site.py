"""The documentation builds without a warning, needs nothing from the internet, and lists every setting."""

import dataclasses
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from tyro.conf import Positional

from azselfplay.lab.azplay import COMMANDS as AZPLAY
from azselfplay.lab.generated_pages import COMMANDS, settings_page

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
        config_class = getattr(importlib.import_module(module), name)
        names = list(_leaves(config_class))
        assert names
        assert [one for one in names if f"<code>{one}</code>" not in text] == []


def test_every_setting_says_what_it_means() -> None:
    rows = [line for line in settings_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert [row for row in rows if row.endswith("|  |")] == []


def test_the_settings_page_has_every_command_of_azplay() -> None:
    assert [name for name in AZPLAY if f"azplay {name}" not in COMMANDS] == []


def _leaves(config_class: type, path: str = "") -> Iterator[str]:
    """Yield the flags and arguments of a settings class, found without `settings_page`."""
    hints: dict[str, Any] = get_type_hints(config_class, include_extras=True)
    for field in dataclasses.fields(config_class):
        name, kind = f"{path}{field.name}", hints[field.name]
        if dataclasses.is_dataclass(kind):
            yield from _leaves(kind, f"{name}.")  # type: ignore[arg-type]
        else:
            is_positional = POSITIONAL in get_args(kind)
            yield name if is_positional else "--" + name.rstrip("_").replace("_", "-")
