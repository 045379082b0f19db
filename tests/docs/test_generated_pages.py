"""Generated pages are committed and up to date; links between pages work in a clone, too."""

import re
import tomllib
from pathlib import Path

import pytest

from azselfplay.lab.generated_pages import generated_pages

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["packages"]
LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")


@pytest.mark.parametrize("page", ["settings.md", "decisions/index.md"])
def test_a_generated_page_is_committed_as_the_code_makes_it(page: str) -> None:
    path = ROOT / "docs" / page
    made = generated_pages(ROOT / "docs")[path]
    assert path.read_text(encoding="utf-8") == made, f"docs/{page} is out of date: run `make docs`, commit it"


def test_every_link_to_a_file_finds_it_in_a_clone() -> None:
    """It does so on GitHub and in an editor, where no site was built."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/**/*.md")]
    links = [(page, link) for page in pages for link in LINK.findall(page.read_text(encoding="utf-8"))]
    local = [(page, link) for page, link in links if "://" not in link and not link.startswith("mailto:")]
    assert len(local) > 100
    missing = [f"{page.name}: {link}" for page, link in local if not (page.parent / link).exists()]
    assert missing == []


def test_every_page_that_a_program_names_exists() -> None:
    """The names of our pages have small letters; those of KataGo's do not."""
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    named = {
        (path.name, page)
        for path in sources
        for page in re.findall(r"(?<![\w/])docs/[a-z_]+\.md", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert [(name, page) for name, page in sorted(named) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("page", sorted(one.name for one in ROOT.glob("docs/*.md") if one.name != "index.md"))
def test_a_page_is_on_the_index_once_with_a_few_words(page: str) -> None:
    rows = [row for row in (ROOT / "docs" / "index.md").read_text().splitlines() if row.startswith("| [")]
    found = [row for row in rows if f"]({page})" in row]
    assert len(found) == 1
    assert re.fullmatch(r"\| \[[^]]+\]\([^)]+\) \| .+ \|", found[0])
