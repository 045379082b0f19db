"""Sizes of a batch whose answers differ in a bit are never used together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from net_shapes import FOUR_SHAPE, GO_SHAPE, THREE_SHAPE
from test_inference import a_batch, trained_like

from games.spec import Game
from net import cpu_engine
from net.agreeing_sizes import Compute, Positions, agreeing_sizes, cost
from net.architectures.registry import named
from net.batches import Batch
from net.conv_sizes import candidates, try_sizes
from net.convolutions import ConvShape
from net.cpu_engine import CpuEngine, CpuForward
from net.folding import fold
from net.sizes_on_disk import remembered

SIZES = candidates(64)


def library(orders: dict[int, int], slots: tuple[int, ...] = ()) -> Compute:
    """Return sums of 100 numbers, added in an order that depends on the rows, as `orders` says (0 otherwise).

    At a size in `slots` the last row is added in an order of its own, as at the edge of a block.
    """
    numbers = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)

    def total(position: int, order: int) -> np.float32:
        return np.float32(np.cumsum(np.roll(numbers[position], order))[-1])

    def compute(positions: Positions) -> list[bytes]:
        order = orders.get(len(positions), 0)
        found = [total(position, order) for position in positions]
        if len(positions) in slots:
            found[-1] = total(positions[-1], 7)
        return [answer.tobytes() for answer in found]

    return compute


@pytest.mark.parametrize(
    ("orders", "slots", "expected"),
    [
        ({}, (), SIZES),
        ({4: 1, 8: 1}, (), (1, 2, *SIZES[4:])),  # as seen with AMX
        (dict.fromkeys((1, 2, 4, 8), 1), (), SIZES[4:]),
        (dict.fromkeys(SIZES[-4:], 1), (), SIZES[:-4]),
        ({size: size for size in SIZES}, (), (12,)),
        ({}, (12, 64), tuple(size for size in SIZES if size not in (12, 64))),
        ({}, SIZES[1:], (1,)),
        ({}, SIZES, (1,)),
    ],
)
def test_the_group_of_equal_bits_that_costs_least_is_chosen(
    orders: dict[int, int], slots: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """A size at which the answer depends on the row belongs to no group."""
    assert agreeing_sizes(SIZES, 64, library(orders, slots)) == expected


@pytest.mark.parametrize("most", [1, 7, 64])
def test_cost_counts_padding_and_a_share_for_every_batch(most: int) -> None:
    assert cost((1,), most) == sum(3 * rows for rows in range(1, most + 1))
    assert cost((64,), most) == 66 * most


@pytest.mark.parametrize("sizes", [(1,), (2,), (12,), (4, 20), (12, 16, 20)])
@pytest.mark.parametrize("game", [FOUR_SHAPE, GO_SHAPE, THREE_SHAPE], ids=lambda game: game.name)
def test_an_engine_runs_only_the_sizes_that_were_found(
    game: Game, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And answers every row, whatever they are."""
    folded, batch, ran = fold(trained_like(named("1x16se"), game, 1)), a_batch(game, 1, 50), set()
    usual = CpuEngine(folded, game, 1, torch.float32, threads=1)
    usual.start(batch, 0)
    expected = usual.finish(0)
    usual.close()
    forward = CpuForward.__call__

    def noted(self: CpuForward, part: Batch, bucket: int, *answers: npt.NDArray[np.float32]) -> None:
        ran.add(bucket)
        forward(self, part, bucket, *answers)

    monkeypatch.setattr(CpuForward, "__call__", noted)
    monkeypatch.setattr(cpu_engine, "conv_sizes", lambda _: sizes)
    engine = CpuEngine(folded, game, 1, torch.float32, threads=2)
    engine.start(batch, 0)
    priors, wdl = engine.finish(0)
    engine.close()
    assert ran <= set(sizes)
    np.testing.assert_allclose(priors, expected[0], rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(wdl, expected[1], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, cpu_engine.faster_dtype()])
def test_sizes_are_found_by_computing_and_never_none(dtype: torch.dtype) -> None:
    shape = ConvShape(dtype, 16, 3, 3, 8)
    assert set(try_sizes(shape)) <= set(candidates(8))
    assert try_sizes(shape) == try_sizes(shape) != ()


def test_what_was_found_is_found_once_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def ask(about: str = "a shape") -> tuple[int, ...]:
        def find() -> tuple[int, ...]:
            tried.append(about)
            return (4, 8)

        return remembered(about, (4, 8, 12), find, tmp_path)

    assert [ask(), ask(), ask()] == [(4, 8)] * 3
    assert tried == ["a shape"]
    ask("another")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2_VNNI")
    ask()
    assert tried == ["a shape", "another", "a shape"]


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"sizes": [4]}', '{"key": "another machine", "sizes": [4]}', "[4] -> [12]"]
)
def test_a_damaged_note_is_written_anew(damage: str, tmp_path: Path) -> None:
    remembered("a shape", (4, 8), lambda: (8,), tmp_path)
    (note,) = tmp_path.iterdir()
    note.write_text(
        damage if "->" not in damage else note.read_text().replace('"sizes": [8]', '"sizes": [12]')
    )
    assert remembered("a shape", (4, 8), lambda: (4,), tmp_path) == (4,)
    assert remembered("a shape", (4, 8), lambda: (8,), tmp_path) == (4,)
    assert list(tmp_path.iterdir()) == [note]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert remembered("a shape", (4, 8), lambda: (8,), tmp_path / "file" / "folder") == (8,)
