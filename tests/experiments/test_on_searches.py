"""Searches are compared by what the same networks do with them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from experiments import on_searches
from experiments.on_searches import CHANGE, ERRORS, Choice, choice_of, compared, page
from net.create import create
from runtime.exits import Exit, Fatal

MACHINE = {"processor": "a CPU", "commit": "abc"}


def test_a_search_is_written_with_its_simulations_and_perhaps_its_settings() -> None:
    assert choice_of("64") == Choice("64", 64, "puct")
    assert choice_of("0/puct?fpu=0").search == "puct?fpu=0"


@pytest.mark.parametrize("text", ["a", "-1", "", "/puct", "20001", "6.4"])
def test_a_search_without_a_number_of_simulations_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 0 to 20000, as in 64"):
        choice_of(text)


def test_differences_are_taken_for_each_network_by_itself() -> None:
    """Both networks lose 2 and 4 points, though one errs four times as often as the other."""
    choices = [choice_of("64"), choice_of("128")]
    found = [*compared("weak", choices, [0.40, 0.38]), *compared("strong", choices, [0.10, 0.06])]
    assert [one["figures"][CHANGE] for one in found[1::2]] == pytest.approx([-0.02, -0.04])
    assert [one["figures"] for one in found[::2]] == [{ERRORS: 0.40}, {ERRORS: 0.10}]
    text = page("more simulations", found, MACHINE)
    assert "| `64` | 25.0 % |  |" in text
    assert "| `128` | 22.0 % | -3.0 ± 12.7 |" in text, "t is 12.7 with one degree of freedom"


def test_more_simulations_help_an_untrained_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for seed in (1, 2):
        files.append(tmp_path / f"{seed}.safetensors")
        create("tic_tac_toe", 0, "1x8", seed, files[-1])
    flags = ["--name", "small", "--out", str(tmp_path), "--search", "0", "200"]
    monkeypatch.setattr(sys, "argv", ["on_searches", *map(str, files), *flags])
    assert on_searches._main() == 0
    found = json.loads((tmp_path / "on_searches-small" / "found.json").read_bytes())["found"]
    assert [one["variant"] for one in found] == ["0", "200"] * 2
    assert all(one["figures"][CHANGE] < -0.2 for one in found[1::2])
    assert all(0 < one["figures"][ERRORS] < 1 for one in found[::2])
    assert (tmp_path / "on_searches-small" / "intervals.png").stat().st_size > 0


def test_networks_of_one_name_could_not_be_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / folder / "a.safetensors" for folder in "xy"]
    for file in files:
        file.parent.mkdir()
        create("tic_tac_toe", 0, "1x8", 1, file)
    flags = ["--name", "x", "--search", "8", "16"]
    monkeypatch.setattr(sys, "argv", ["on_searches", *map(str, files), *flags])
    with pytest.raises(Fatal, match=r"several networks are called a\.safetensors"):
        on_searches._main()


def test_one_search_is_no_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.safetensors"
    create("tic_tac_toe", 0, "1x8", 1, file)
    monkeypatch.setattr(sys, "argv", ["on_searches", str(file), "--name", "x", "--search", "8", "8"])
    with pytest.raises(Fatal, match="at least two searches, all different") as raised:
        on_searches._main()
    assert raised.value.code == Exit.USAGE
