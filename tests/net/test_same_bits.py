"""An answer depends only on weights and position, not on the batch, with the best instructions of the
machine.

The same under limits on instructions: `test_same_bits_avx2.py` and `test_same_bits_avx512.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from net_shapes import FOUR_SHAPE
from same_bits import networks_that_differ, one_of_each_way, sizes_that_differ
from test_inference import a_batch, trained_like

from net.architectures.registry import named
from net.cpu_engine import multiplies_bfloat16_faster
from net.folding import fold
from net.torch_engine import TorchEngine


@pytest.mark.nightly
def test_no_answer_depends_on_the_batch() -> None:
    assert networks_that_differ("float32 bfloat16", {}) == ""


def test_every_way_to_run_1_to_64_rows_is_tried() -> None:
    """Two threads share the rows, and each part is padded to a size that the engine may run."""
    assert one_of_each_way(range(1, 65), (16, 64)) == [1, 16, 17, 32, 33, 48, 49, 64]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nor_does_it_with_plain_torch_on_a_cpu(dtype: torch.dtype) -> None:
    folded = fold(trained_like(named("2x16tanh"), FOUR_SHAPE, 1))
    engine = TorchEngine(folded, FOUR_SHAPE, 1, "cpu", dtype, buckets=(1, 4, 8), in_flight=2)
    assert sizes_that_differ(engine, engine, a_batch(FOUR_SHAPE, 1, 8), (1, 2, 3, 8)) == []


@pytest.mark.parametrize(
    ("cpu", "instructions", "is_faster"),
    [
        ("AMD EPYC 9R14", {"avx512_bf16": True}, True),
        ("Intel Xeon", {"avx512_bf16": True, "amx_bf16": True}, True),
        ("Intel Xeon", {"avx512_bf16": True, "amx_bf16": False}, False),
        ("Neoverse V2", {"bf16": True}, True),
        ("AMD EPYC 7763", {"avx512_bf16": False}, False),
    ],
)
def test_bfloat16_is_chosen_where_the_processor_multiplies_it_faster(
    cpu: str, instructions: dict[str, bool], is_faster: bool
) -> None:
    assert multiplies_bfloat16_faster({"cpu_name": cpu, **instructions}) == is_faster


def test_bfloat16_is_not_chosen_where_its_instructions_are_forbidden() -> None:
    """`ONEDNN_MAX_CPU_ISA` hides them from the library, although the processor still reports them."""
    ask = "from net.cpu_engine import faster_dtype; print(faster_dtype())"
    env = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    command = [sys.executable, "-c", ask]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "torch.float32"
