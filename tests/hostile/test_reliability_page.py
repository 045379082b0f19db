"""docs/reliability.md and docs/security.md name tests and attacks that exist, and every attack is on one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attacks import ATTACKS

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parent / "docs"


@pytest.mark.parametrize("page", ["reliability.md", "security.md"])
def test_every_test_on_the_page_exists(page: str) -> None:
    """`file::test`, and `::test` of the file named before it."""
    found, file = 0, ""
    for named, test in re.findall(r"`([\w/]*(?:\.py)?)::(\w+)`", (DOCS / page).read_text()):
        file = named or file
        assert f"def {test}(" in (TESTS / file).read_text(), f"{file}::{test}"
        found += 1
    assert found > 20


def test_the_attacks_on_the_page_are_those_there_are() -> None:
    on_page = {
        name
        for names in re.findall(r"attacks? ((?:`\w+`(?:, )?)+)", (DOCS / "reliability.md").read_text())
        for name in re.findall(r"\w+", names)
    }
    assert on_page == {attack.name for attack in ATTACKS}
