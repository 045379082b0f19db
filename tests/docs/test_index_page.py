"""The page on which readers begin links to every other page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md") if page.name != "index.md")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_on_the_index_once_with_a_few_words(page: str) -> None:
    rows = [row for row in (DOCS / "index.md").read_text().splitlines() if row.startswith("| [")]
    found = [row for row in rows if f"]({page})" in row]
    assert len(found) == 1
    assert re.fullmatch(r"\| \[[^]]+\]\([^)]+\) \| .+ \|", found[0])
