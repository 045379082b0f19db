"""An answer depends on weights and position alone: not on the batch, whatever the instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from net_shapes import FOUR_SHAPE
from same_bits import sizes_that_differ
from test_inference import a_batch, trained_like

from net.architectures.registry import named
from net.folding import fold
from net.torch_engine import TorchEngine

LIMITS = {
    "none": ("float32 bfloat16", {}),
    "AVX512_CORE_BF16": ("bfloat16", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}),
    "AVX512_CORE": ("float32", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}),
    "AVX2": ("float32", {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}),
}
"""Numbers of the network, and limits on instructions; one above what the processor has changes nothing."""


@pytest.mark.parametrize(("numbers", "limits"), LIMITS.values(), ids=LIMITS)
def test_no_answer_depends_on_the_batch(numbers: str, limits: dict[str, str]) -> None:
    """Every game and preset, 1 to 64 rows, one thread and two."""
    here = Path(__file__).resolve()
    command = [sys.executable, str(here.with_name("same_bits.py")), *numbers.split()]
    env = os.environ | limits | {"PYTHONPATH": os.pathsep.join(map(str, (here.parents[2], here.parents[1])))}
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (found.stdout, found.returncode) == ("", 0), found.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nor_does_it_with_plain_torch_on_a_cpu(dtype: torch.dtype) -> None:
    folded = fold(trained_like(named("2x16tanh"), FOUR_SHAPE, 1))
    engine = TorchEngine(folded, FOUR_SHAPE, 1, "cpu", dtype, buckets=(1, 4, 8), in_flight=2)
    assert sizes_that_differ(engine, engine, a_batch(FOUR_SHAPE, 1, 8), (1, 2, 3, 8)) == []


def test_bfloat16_is_not_chosen_where_its_instructions_are_forbidden() -> None:
    """`ONEDNN_MAX_CPU_ISA` hides them from the library; the processor still says that it has them."""
    ask = "from net.cpu_engine import faster_dtype; print(faster_dtype())"
    env = os.environ | LIMITS["AVX2"][1]
    command = [sys.executable, "-c", ask]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "torch.float32"
