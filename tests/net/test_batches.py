"""The size of batches that is worth collecting, which is measured once."""

from pathlib import Path

import numpy as np
import pytest

from net.batches import choose_target, remembered

IDLE = {8: 2.6, 16: 3.9, 32: 6.6, 64: 11.3, 128: 21.9}
"""Milliseconds for a batch of the network `small`, by its number of rows."""


def test_the_smallest_bucket_that_reaches_the_share_of_endless_batches_is_chosen() -> None:
    assert choose_target([IDLE]) == 128
    assert choose_target([{rows: rows for rows in (8, 16, 32)}]) == 8
    assert choose_target([{rows: 2 + rows for rows in (8, 16, 32, 64, 128)}]) == 32
    assert choose_target([{rows: 4 + rows for rows in (8, 16, 32, 64, 128)}]) == 64
    assert choose_target([{rows: 1000 + rows for rows in (8, 16, 32)}]) == 32
    assert choose_target([{40: 1.0}]) == 40


@pytest.mark.parametrize("seed", range(50))
def test_a_machine_whose_speed_changes_between_turns_chooses_the_same(seed: int) -> None:
    """The speed changes up to fourfold from turn to turn, and by 2 % from bucket to bucket; one turn is
    disturbed."""
    rng = np.random.default_rng(seed)
    turns = []
    for _ in range(5):
        slow = 2 ** rng.uniform(-1, 1)
        turns.append({rows: took * slow * rng.normal(1, 0.02) for rows, took in IDLE.items()})
    disturbed = turns[int(rng.integers(5))]
    disturbed[int(rng.choice(list(IDLE)))] *= 10
    assert choose_target(turns) == 128


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
