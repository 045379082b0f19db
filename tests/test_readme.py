"""What the README must say beside some flags, and that its folders and the picture of the rooms are true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]


def paragraphs_with(words: str) -> str:
    """Text of the section that names `words`, with its line breaks taken out."""
    sections = [section for section in README.split("\n## ") if words in section]
    return " ".join(" ".join(sections).split())


def test_it_says_that_no_cuda_path_has_been_run_beside_the_flag_that_asks_for_one() -> None:
    assert "no CUDA path has been run yet" in paragraphs_with("--gpus 0,1 --listen")


def test_it_says_who_can_do_what_beside_the_flag_that_lets_others_in() -> None:
    text = paragraphs_with("--gpus 0,1 --listen")
    assert "whoever reaches the ports can submit games, or act as the trainer" in text


def test_it_lists_every_folder_of_code() -> None:
    assert set(re.findall(r"^\| `(\w+)/` \|", README, re.M)) == {
        *LINTER["root_packages"],
        "bench",
        "tests",
        "docs",
    }


def test_the_picture_of_the_rooms_shows_the_layers_that_imports_are_checked_against() -> None:
    picture = ARCHITECTURE.split("```text\n")[1].split("```")[0]
    drawn = [set(line.split(" · ")) for line in picture.splitlines() if "↓" not in line]
    (layers,) = (contract["layers"] for contract in LINTER["contracts"] if contract["type"] == "layers")
    assert drawn == [set(layer.split(" | ")) for layer in layers]
    assert set(re.findall(r"^\| `(\w+)` \|", ARCHITECTURE, re.M)) == set(LINTER["root_packages"])
