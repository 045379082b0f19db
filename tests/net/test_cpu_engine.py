"""How a CPU's work is cut into chunks, and which number format it computes in."""

import os
import subprocess
import sys

import pytest

from net.cpu.engine import LARGEST_CHUNK, STEP, cut, multiplies_bfloat16_faster, rounded_up


@pytest.mark.parametrize("most", [STEP, 12, LARGEST_CHUNK])
@pytest.mark.parametrize("rows", [0, 1, 3, 8, 64, 65, 127, 128, 500])
def test_chunks_cover_all_rows_once_and_only_the_last_is_padded(rows: int, most: int) -> None:
    chunks = cut(rows, most, threads=2)
    assert [row for start, stop in chunks for row in range(start, stop)] == list(range(rows))
    sizes = [rounded_up(stop - start) for start, stop in chunks]
    assert all(0 < size <= most for size in sizes)
    assert sum(sizes) < rows + STEP


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


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="on other processors the variable does nothing")
def test_bfloat16_is_not_chosen_where_its_instructions_are_forbidden() -> None:
    """`ONEDNN_MAX_CPU_ISA` hides them from the library, although the processor still reports them."""
    ask = "from net.cpu.engine import faster_dtype; print(faster_dtype())"
    env = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    found = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "torch.float32"
