"""No answer depends on the batch where libraries may use only some of the AVX-512 instructions.

In float32 they choose the same code with all of these instructions as with the plain ones, which
test_same_bits.py runs (`ONEDNN_VERBOSE=1` names it: `brg_conv_fwd:avx512_core` for both). In bfloat16 they do
not.
"""

from __future__ import annotations

import pytest
import torch
from same_bits import networks_that_differ

pytestmark = pytest.mark.nightly

ABOVE_BF16 = ("amx_tile", "avx512_fp16", "avx10_1")
"""The instructions that `AVX512_CORE_BF16` hides from oneDNN."""


@pytest.mark.skipif(
    not any(torch.cpu.get_capabilities().get(name) for name in ABOVE_BF16),
    reason="the processor has nothing above AVX512-BF16: test_same_bits.py computes the same",
)
def test_no_answer_depends_on_the_batch_with_avx512_bf16() -> None:
    assert networks_that_differ("bfloat16", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}) == ""
