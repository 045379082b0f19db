"""No answer depends on the batch where libraries may use AVX2 at most."""

from __future__ import annotations

import pytest
import torch
from same_bits import networks_that_differ

pytestmark = pytest.mark.nightly


@pytest.mark.skipif(
    not torch.cpu.get_capabilities().get("avx512_f"),
    reason="the processor has nothing above AVX2: test_same_bits.py computes the same",
)
def test_no_answer_depends_on_the_batch_with_avx2() -> None:
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    assert networks_that_differ("float32", limits) == ""
