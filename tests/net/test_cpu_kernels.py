"""Number formats of a network on a CPU, compared with torch's."""

import numpy as np
import torch
from numba import njit

from net.cpu.kernels import as_numpy, load_bf16, store_bf16


@njit
def stored(numbers: np.ndarray, found: np.ndarray) -> None:
    """numbers  [n] float32;  found  [n] uint16"""
    for i in range(len(numbers)):
        found[i] = store_bf16(numbers[i])


@njit
def loaded(bits: np.ndarray, found: np.ndarray) -> None:
    """bits  [n] uint16;  found  [n] float32"""
    for i in range(len(bits)):
        found[i] = load_bf16(bits[i])


def test_numbers_are_rounded_as_torch_does_ties_to_even_included() -> None:
    """All 65,536 upper halves are tried, each below, at and above the middle to the next number."""
    upper = np.arange(1 << 16, dtype=np.uint32)
    words = np.concatenate([(upper << 16) | lower for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    numbers = words.view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    found = np.zeros(len(numbers), np.uint16)
    stored(numbers, found)
    assert np.array_equal(found, as_numpy(torch.from_numpy(numbers).bfloat16()))


def test_every_finite_bfloat16_is_read_exactly() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(bits).view(torch.bfloat16).float().numpy()
    found = np.zeros(len(bits), np.float32)
    loaded(bits, found)
    finite = np.isfinite(expected)
    assert np.array_equal(found[finite].view(np.uint32), expected[finite].view(np.uint32))
