"""What the README has to say beside the flags that could be taken for more than they are."""

from __future__ import annotations

from pathlib import Path

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def paragraphs_with(words: str) -> str:
    """Text of the section that names `words`, with its line breaks taken out."""
    sections = [section for section in README.split("\n## ") if words in section]
    return " ".join(" ".join(sections).split())


def test_it_says_that_no_cuda_path_has_been_run_beside_the_flag_that_asks_for_one() -> None:
    assert "no CUDA path has been run yet" in paragraphs_with("--gpus 0,1 --listen")


def test_it_says_who_can_do_what_beside_the_flag_that_lets_others_in() -> None:
    text = paragraphs_with("--gpus 0,1 --listen")
    assert "whoever reaches the ports can submit games, or act as the trainer" in text
