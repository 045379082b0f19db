"""No answer depends on the batch where libraries may use AVX2 at most."""

from __future__ import annotations

from same_bits import networks_that_differ


def test_no_answer_depends_on_the_batch_with_avx2() -> None:
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    assert networks_that_differ("float32", limits) == ""
