"""What was found good on a machine is found once, and a damaged note of it is written anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from net.batches import remembered


def test_what_was_found_is_found_once_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def ask(about: str = "a shape") -> int:
        def find() -> int:
            tried.append(about)
            return 8

        return remembered(about, (4, 8, 12), find, tmp_path)

    assert [ask(), ask(), ask()] == [8] * 3
    assert tried == ["a shape"]
    ask("another")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2_VNNI")
    ask()
    assert tried == ["a shape", "another", "a shape"]


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"size": 4}', '{"key": "another machine", "size": 4}', "4 -> 12"]
)
def test_a_damaged_note_is_written_anew(damage: str, tmp_path: Path) -> None:
    remembered("a shape", (4, 8), lambda: 8, tmp_path)
    (note,) = tmp_path.iterdir()
    note.write_text(damage if "->" not in damage else note.read_text().replace('"size": 8', '"size": 12'))
    assert remembered("a shape", (4, 8), lambda: 4, tmp_path) == 4
    assert remembered("a shape", (4, 8), lambda: 8, tmp_path) == 4
    assert list(tmp_path.iterdir()) == [note]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert remembered("a shape", (4, 8), lambda: 8, tmp_path / "file" / "folder") == 8
