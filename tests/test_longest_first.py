"""The order of test files."""

from __future__ import annotations

from pathlib import Path

from longest_first import LONGEST, rank


def test_every_file_of_the_order_exists_once() -> None:
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert [name for name in LONGEST if names.count(name) != 1] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_a_file_that_takes_long_comes_before_all_that_are_quick() -> None:
    assert sorted(["test_aio.py", LONGEST[1], "test_view.py", LONGEST[0]], key=rank) == [
        LONGEST[0],
        LONGEST[1],
        "test_aio.py",
        "test_view.py",
    ]
