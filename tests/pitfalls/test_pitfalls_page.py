"""docs/pitfalls.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "pitfalls.md").read_text()


def test_every_test_on_the_page_exists() -> None:
    """`file::test`, and `::test` of the file named before it."""
    found, file = 0, ""
    for named, test in re.findall(r"`([\w/]*(?:\.py)?)::(\w+)`", PAGE):
        file = named or file
        text = (TESTS / file).read_text()
        assert f"def {test}(" in text, f"{file}::{test}"
        found += 1
    assert found > 60


def test_every_test_of_a_pitfall_is_on_the_page() -> None:
    names = [
        name
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        if path != Path(__file__)
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
    ]
    assert [name for name in names if f"::{name}`" not in PAGE] == []
