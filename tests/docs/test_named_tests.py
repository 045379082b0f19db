"""The tests that pages name for their promises exist, and no test of a pitfall and no attack is left out."""

import re
from pathlib import Path

import pytest
from attacks import ATTACKS

TESTS = Path(__file__).resolve().parents[1]
PAGES = {"docs/pitfalls.md": 60, "docs/reliability.md": 20, "docs/security.md": 20, "results/faults.md": 15}
"""The fewest tests that each page names."""


def text_of(page: str) -> str:
    return (TESTS.parent / page).read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_test_on_a_page_exists(page: str) -> None:
    """They are named `file::test`, or `::test` if the file was named before."""
    found, file = 0, ""
    for named, test in re.findall(r"`([\w/]*(?:\.py)?)::(\w+)`", text_of(page)):
        file = named or file
        assert f"def {test}(" in (TESTS / file).read_text(), f"{file}::{test}"
        found += 1
    assert found > PAGES[page]


def test_every_test_of_a_pitfall_is_on_its_page() -> None:
    files = [path.read_text() for path in (TESTS / "pitfalls").glob("test_*.py")]
    names = [name for text in files for name in re.findall(r"^def (test_\w+)\(", text, re.M)]
    assert [name for name in names if f"::{name}`" not in text_of("docs/pitfalls.md")] == []
    assert names


def test_the_attacks_on_the_page_are_those_there_are() -> None:
    named = re.findall(r"attacks? ((?:`\w+`(?:, )?)+)", text_of("docs/reliability.md"))
    assert {name for names in named for name in re.findall(r"\w+", names)} == {one.name for one in ATTACKS}
