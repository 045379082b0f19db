"""docs/reliability.md names tests and attacks that exist, and every attack is on it."""

from __future__ import annotations

import re
from pathlib import Path

from attacks import ATTACKS

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "reliability.md").read_text()


def test_every_test_on_the_page_exists() -> None:
    """`file::test`, and `::test` of the file named before it."""
    found, file = 0, ""
    for named, test in re.findall(r"`([\w/]*(?:\.py)?)::(\w+)`", PAGE):
        file = named or file
        assert f"def {test}(" in (TESTS / file).read_text(), f"{file}::{test}"
        found += 1
    assert found > 40


def test_the_attacks_on_the_page_are_those_there_are() -> None:
    on_page = {
        name
        for names in re.findall(r"attacks? ((?:`\w+`(?:, )?)+)", PAGE)
        for name in re.findall(r"\w+", names)
    }
    assert on_page == {attack.name for attack in ATTACKS}
